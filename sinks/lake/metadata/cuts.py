"""The table of cuts. A cut names, after each batch, the versions of all tables at one position.

Readers use it to see several tables at one moment. The lake keeps its position in it, and the followers behind the lake
read their feed from it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from cdc.core.errors import HistoryLostError, RefusedError
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot, TxnUpdate, txn_action
from cdc.sinks.lake.delta.write_rate import WriteRate
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.table import MetadataTable

FOLDER = "cuts"
_TXN_SHIFT = 1
"""The first cut is before offset 0, and `txn` versions are not negative."""
SCHEMA = pa.schema(
    {
        "end_offset": pa.int64(),  # offset of the last END in the cut
        "lsn": pa.int64(),  # LSN of that END
        "committed_at": pa.timestamp("us", "UTC"),  # commit time of the last transaction
        "position": pa.string(),  # `Position` as JSON
        "versions": pa.string(),  # JSON map: Delta version
        "ids": pa.string(),  # JSON map: Delta table id
        "commits": pa.string(),  # JSON map: commit id of the version
        "behind": pa.string(),  # id of the previous cut
        "as_of": pa.string(),  # JSON map: END offset of the older cut that a view shows
        "whole": pa.string(),  # JSON map: why a view that goes by keys is computed as a whole at present
        "joined": pa.string(),  # JSON list: views by which the cut was extended, and of which earlier ones had others
    }
)
"""One row per cut; its key: end_offset. The JSON maps have table names as keys, `schema.table`."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The Delta versions of all tables at one position, and the commit time of its last transaction.

    `ids` are Delta table ids: a table that was created again has another id under its name. `commits` are commit ids: a
    table that was put back and written again has other commits under the same versions; a version without one is
    unknown, since only a checkpoint of it was read. `behind` is the previous cut's id, None in the first. `as_of`: the
    views that show an older cut, by its END offset, since they are computed as a whole, every now and then. `whole`:
    why views are that go by keys otherwise. `joined`: views by which the cut was extended, and of which earlier
    cuts had other tables: whoever stands at this cut may have either.
    """

    position: Position
    committed_ms: int
    versions: Mapping[str, int]
    ids: Mapping[str, str]
    commits: Mapping[str, str] = field(default_factory=dict)
    behind: str | None = None
    as_of: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()

    def is_next_to(self, other: "Cut") -> bool:
        """Whether this cut follows `other`. After the lake was put back, a later cut may not."""
        return self.behind == other.position.cut

    def has_same_table(self, name: str, other: "Cut") -> bool:
        """Whether both cuts have the same Delta table under this name."""
        return self.ids[name] == other.ids[name]

    def has_version(self, name: str, snapshot: Snapshot) -> bool:
        """Whether the cut has this version of this table.

        Ids are asked, too: after a table was put back, the same version may be another one. A checkpoint tells no
        commit's.
        """
        commit = self.commits.get(name, snapshot.commit_id)
        is_same = self.ids[name] == snapshot.table_id and self.versions[name] == snapshot.version
        return is_same and snapshot.commit_id in (None, commit)

    def without(self, names: Iterable[TableName]) -> "Cut":
        """The cut without these tables."""
        gone = set(map(str, names))
        return replace(self, versions={name: at for name, at in self.versions.items() if name not in gone})

    def as_record(self) -> dict[str, object]:
        return {
            "end_offset": self.position.end_offset,
            "lsn": self.position.lsn,
            "committed_at": datetime.fromtimestamp(self.committed_ms / 1000, UTC),
            "position": json.dumps(self.position.as_json()),
            "versions": json.dumps(dict(self.versions)),
            "ids": json.dumps(dict(self.ids)),
            "commits": json.dumps(dict(self.commits)),
            "behind": self.behind,
            "as_of": json.dumps(dict(self.as_of)) if self.as_of else None,
            "whole": json.dumps(dict(self.whole)) if self.whole else None,
            "joined": json.dumps(sorted(self.joined)) if self.joined else None,
        }


def cut_from_record(record: Mapping[str, object]) -> Cut:
    """The cut of a row of SCHEMA, as `Cut.as_record` wrote it."""
    committed = record["committed_at"]
    assert isinstance(committed, datetime)
    position = Position.from_json(json.loads(str(record["position"])))
    # Parquet's timestamps come back without a time zone
    milliseconds = round(committed.replace(tzinfo=UTC).timestamp() * 1000)
    versions, ids, commits = (json.loads(str(record[name])) for name in ("versions", "ids", "commits"))
    behind = str(record["behind"]) if record["behind"] else None
    as_of = json.loads(str(record["as_of"])) if record["as_of"] else {}
    whole = json.loads(str(record["whole"])) if record["whole"] else {}
    joined = frozenset(json.loads(str(record["joined"]))) if record["joined"] else frozenset[str]()
    return Cut(position, milliseconds, versions, ids, commits, behind, as_of, whole, joined)


def oldest_needed_version(name: str, behind: Sequence[Cut], last: Cut, version: int) -> int:
    """The oldest table version that lagging followers at the cuts `behind` need; `version` when no cut has the table.

    A follower at a cut without the table gets its copy from the first cut that has it, so everything is needed then.
    """
    if any(name not in cut.versions for cut in behind):
        return 0
    return min((cut.versions[name] for cut in (*behind, last) if name in cut.versions), default=version)


class Cuts:
    """The cuts of one lake."""

    def __init__(self, lake: Lake, look_seconds: float = 0.0) -> None:
        self._lake = lake
        self.folder = lake.metadata_folder(FOLDER)
        self._table = MetadataTable(lake.metadata_storage(FOLDER), FOLDER, SCHEMA, look_seconds)
        self._last: Cut | None = None
        self._last_extension = 0
        """The number of extensions of cuts when the last one was read."""

    def prepare(self) -> None:
        """Create the table if it does not exist."""
        self._table.prepare()

    def last(self) -> Cut | None:
        """The newest cut; None before the first."""
        snapshot = self._table.snapshot()
        # the `txn` action names the newest cut, so that nobody has to read all
        offset = snapshot.transactions.get(self._lake.app_id) if snapshot else None
        if snapshot is None or offset is None:
            return None
        last, extension = self._last, self._count_extensions(snapshot)
        if last is None or (last.position.end_offset, self._last_extension) != (offset - _TXN_SHIFT, extension):
            # a local name: another thread may set an older cut meanwhile
            last = self._last = self._find(snapshot, offset - _TXN_SHIFT)
            self._last_extension = extension
        return last

    def find(self, end_offset: int) -> Cut | None:
        """The cut at this END offset; None when there is none."""
        # most are asked for where they have just been reached
        last = self.last()
        if last is not None and last.position.end_offset == end_offset:
            return last
        snapshot = self._table.snapshot()
        return self._find(snapshot, end_offset) if snapshot else None

    def find_newest(self, *, lsn: Lsn | None = None, time: datetime | None = None) -> Cut | None:
        """The newest cut at or below this LSN, or with a last transaction committed at or before this time.

        None when there is none, or no longer.
        """
        column, most = ("lsn", pa.scalar(lsn)) if time is None else ("committed_at", pa.scalar(time.astimezone(UTC)))
        return self._find_newest(pc.field(column) <= most)

    def find_last_with(self, name: str) -> Cut | None:
        """The newest cut that has a table of this name; None when there is none, or no longer."""
        return self._find_newest(pc.match_substring(pc.field("versions"), json.dumps(name)))

    def _find_newest(self, where: pc.Expression) -> Cut | None:
        snapshot = self._table.snapshot()
        # from the newest file backwards: cuts are in order, and a file's statistics are not asked, since those of times
        # are cut to milliseconds
        for file in sorted(snapshot.files.values() if snapshot else (), key=_bounds, reverse=True):
            rows = self._table.rows([file]).filter(where)
            if rows.num_rows:
                last = pc.select_k_unstable(rows, 1, [("end_offset", "descending")])
                return cut_from_record(rows.take(last).to_pylist()[0])
        return None

    def list_after(self, than: Cut, most: int) -> list[Cut]:
        """The first `most` cuts after `than`, in order."""
        snapshot, after = self._table.snapshot(), than.position.end_offset
        files = [file for file in snapshot.files.values() if _bounds(file)[1] > after] if snapshot else []
        # files do not overlap, as cuts are added in order, and all behind the last large file are compacted at once. So
        # the first files beyond `than` hold the first cuts
        rows = self._table.rows([*_take_first(files, after, most)]).filter(pc.field("end_offset") > after)
        first = pc.select_k_unstable(rows, most, [("end_offset", "ascending")])
        return [cut_from_record(record) for record in rows.take(first).to_pylist()]

    def add(self, cut: Cut, after: Cut | None) -> None:
        """Commit a cut after `after`; raises RefusedError when another writer was first."""
        cut = replace(cut, behind=after.position.cut if after else None)
        before = None if after is None else after.position.end_offset + _TXN_SHIFT
        self._table.append(
            [cut.as_record()], TxnUpdate(self._lake.app_id, before, cut.position.end_offset + _TXN_SHIFT)
        )
        self._last = cut

    def extend(self, cut: Cut, joined: Iterable[str] = ()) -> None:
        """Put this cut in the place of the newest one, which is at the same position and has fewer tables.

        `joined`: those of the others that are in the place of other tables. Raises RefusedError when another writer
        interferes, or the newest cut is another one.
        """
        last = self.last()
        if last is None or last.position != cut.position:
            raise RefusedError(f"another writer has moved {self.folder}", "stop the other `cdc follow`")
        end_offset, extension = cut.position.end_offset, self._last_extension + 1
        cut = replace(cut, behind=last.behind, joined=last.joined | {*joined})
        row = pa.Table.from_pylist([cut.as_record()], SCHEMA)
        self._table.rewrite(
            lambda snapshot: self._files_with(snapshot, end_offset),
            lambda rows: pa.concat_tables([rows.filter(pc.field("end_offset") != end_offset), row]),
            txn_action(self._extension_id, extension),
        )
        self._last, self._last_extension = cut, extension

    def begin_capture(self) -> int:
        """Start a new capture: until its first cut exists, nobody may continue from an older one.

        Returns the capture's number, higher than any before, finished or not.
        """
        number = self._capture_number() + 1
        self._table.commit([txn_action(self._capture_id, number)], "BEGIN CAPTURE")
        return number

    def check_capture(self) -> None:
        """Raise HistoryLostError when the newest cut belongs to an older capture than the last one begun."""
        last = self.last()
        if last is not None and not self.is_of_present_capture(last):
            raise HistoryLostError("a recapture was begun and not finished", "run `cdc recapture` again")

    def is_of_present_capture(self, cut: Cut) -> bool:
        """Does this cut belong to the capture that was begun last, finished or not?"""
        return cut.position.log_start.number >= self._capture_number()

    def _capture_number(self) -> int:
        snapshot = self._table.snapshot()
        # the first capture is number 1, and has no `txn`
        return snapshot.transactions.get(self._capture_id, 1) if snapshot else 1

    def _count_extensions(self, snapshot: Snapshot) -> int:
        return snapshot.transactions.get(self._extension_id, 0)

    @property
    def _extension_id(self) -> str:
        return f"{self._lake.app_id}/extensions"

    @property
    def _capture_id(self) -> str:
        return f"{self._lake.app_id}/capture"

    def invalidate(self) -> None:
        self._table.invalidate()

    def write_rate(self) -> WriteRate:
        return self._table.write_rate()

    def maintain(self, hours: float, needed: int | None) -> None:
        """Delete cuts older than `hours`, except the newest one and all from the END offset `needed` on.

        `needed`: the oldest cut where a follower stands.
        """
        last = self.last()
        if last is None:
            return
        horizon = datetime.now(UTC) - timedelta(hours=hours)
        since = last.position.end_offset if needed is None else min(needed, last.position.end_offset)
        keep = (pc.field("committed_at") >= pa.scalar(horizon)) | (pc.field("end_offset") >= since)
        self._table.maintain(hours, keep)

    def _find(self, snapshot: Snapshot, end_offset: int) -> Cut | None:
        files = self._files_with(snapshot, end_offset)
        rows = self._table.rows(files).filter(pc.field("end_offset") == end_offset).to_pylist()
        return cut_from_record(rows[-1]) if rows else None

    def _files_with(self, snapshot: Snapshot, end_offset: int) -> list[DataFile]:
        # statistics pick the file: usually one, though there may be hundreds
        return [file for file in snapshot.files.values() if _bounds(file)[0] <= end_offset <= _bounds(file)[1]]


def _take_first(files: Iterable[DataFile], after: int, most: int) -> Iterator[DataFile]:
    """The first of these files that together have `most` cuts above this END offset, or all of them."""
    count = 0
    for file in sorted(files, key=_bounds):
        if count >= most:
            return
        yield file
        # of the first one, all but one may be below; and others may have written files without statistics
        count += file.rows if _bounds(file)[0] > after and file.rows > 0 else 1


def _bounds(file: DataFile) -> tuple[float, float]:
    """The lowest and highest END offset in a file; unbounded when its statistics lack them."""
    stats = json.loads(file.stats)
    lowest, highest = (stats.get(side, {}).get("end_offset") for side in ("minValues", "maxValues"))
    return (float("-inf") if lowest is None else lowest, float("inf") if highest is None else highest)
