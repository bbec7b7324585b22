"""The table of cuts: after every batch, which versions of all tables belong to one position.

It is what readers use to see several tables at one moment, where the lake keeps its own position, and the feed of the
followers behind it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from cdc.core.errors import HistoryLostError
from cdc.core.position import Position
from cdc.core.table import TableName
from sinks.lake.delta.price import Price
from sinks.lake.delta.snapshot import DataFile, Move, State, reached
from sinks.lake.layout import Lake
from sinks.lake.metadata.table import OwnTable

FOLDER = "cuts"
_SHIFT = 1
"""The first cut is before offset 0, and a `txn` version is not negative."""
SCHEMA = pa.schema(
    [
        pa.field("end_offset", pa.int64()),
        pa.field("lsn", pa.int64()),
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("position", pa.string()),
        pa.field("versions", pa.string()),
        pa.field("ids", pa.string()),
        pa.field("commits", pa.string()),
        pa.field("behind", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Cut:
    """Every table's Delta version at one position, and when the last transaction in it committed.

    `ids` are those of the Delta tables: one that was made anew has other versions under the same name. `commits` are
    those of the commits that made the versions: of a table that was put back to an older state and written on, the same
    version is another. `behind` is the id of the cut before. Cuts of older versions of ours have none of these.
    """

    position: Position
    committed_ms: int
    versions: Mapping[str, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    behind: str | None = None

    def is_next(self, other: "Cut") -> bool:
        """Is this the cut behind the other, as far as they say? Of a lake that was put back, a later one is not."""
        return None in (self.behind, other.position.cut) or self.behind == other.position.cut

    def same_table(self, name: str, other: "Cut") -> bool:
        """Is the table of this name the same Delta table in both cuts? Cuts of older versions of ours have no ids."""
        mine, theirs = self.ids.get(name), other.ids.get(name)
        return mine is None or theirs is None or mine == theirs

    def without(self, names: Iterable[TableName]) -> "Cut":
        """The cut of the other tables."""
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
        }


def cut_of(record: Mapping[str, object]) -> Cut:
    """Read one row of the table back."""
    committed = record["committed_at"]
    assert isinstance(committed, datetime)
    position = Position.from_json(json.loads(str(record["position"])))
    milliseconds = round(committed.replace(tzinfo=UTC).timestamp() * 1000)
    ids = json.loads(str(record["ids"])) if record["ids"] else {}
    commits = json.loads(str(record["commits"])) if record["commits"] else {}
    behind = str(record["behind"]) if record["behind"] else None
    return Cut(position, milliseconds, json.loads(str(record["versions"])), ids, commits, behind)


def needed_since(name: str, behind: Sequence[Cut], last: Cut, version: int) -> int:
    """From which version on a table's past is still needed; of one in none of these cuts, nothing is before `version`.

    Who stands at a cut without it is given its copy as at the first one that has it, wherever that is.
    """
    if any(name not in cut.versions for cut in behind):
        return 0
    return min((cut.versions[name] for cut in (*behind, last) if name in cut.versions), default=version)


class Cuts:
    """The table of cuts of one lake."""

    def __init__(self, lake: Lake, look_seconds: float = 0.0) -> None:
        self._lake = lake
        self.folder = lake.own_folder(FOLDER)
        self._table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA, look_seconds)
        self._last: Cut | None = None

    def prepare(self) -> None:
        """Make the table if it is not there."""
        self._table.prepare()

    def last(self) -> Cut | None:
        """The newest cut, or None before the first."""
        state = self._table.state()
        offset = state.transactions.get(self._lake.app_id) if state else None
        if state is None or offset is None:
            return None
        last = self._last
        if last is None or last.position.end_offset != offset - _SHIFT:
            # by a name of its own: another thread may find an older one meanwhile
            last = self._last = self._found(state, offset - _SHIFT)
        return last

    def at(self, end_offset: int) -> Cut | None:
        """The cut at this END's offset, or None when there is none."""
        state = self._table.state()
        return self._found(state, end_offset) if state else None

    def newer(self, than: Cut, most: int) -> list[Cut]:
        """The first cuts behind `than`, at most so many, in order."""
        state, after = self._table.state(), than.position.end_offset
        files = [file for file in state.files.values() if _bounds(file)[1] > after] if state else []
        # files do not overlap, since cuts are added in order and put together all at once: of files that all have a cut
        # behind `than`, the first ones have the first cuts
        rows = self._table.rows(sorted(files, key=_bounds)[:most]).filter(pc.field("end_offset") > after)
        first = pc.select_k_unstable(rows, most, [("end_offset", "ascending")])
        return [cut_of(record) for record in rows.take(first).to_pylist()]

    def add(self, cut: Cut, after: Cut | None) -> None:
        """Commit a cut behind `after`; raises RefusedError when another writer was there first."""
        cut = replace(cut, behind=after.position.cut if after else None)
        before = None if after is None else after.position.end_offset + _SHIFT
        self._table.append([cut.as_record()], Move(self._lake.app_id, before, cut.position.end_offset + _SHIFT))
        self._last = cut

    def begin_capture(self) -> int:
        """Note that a new capture begins: until its first cut is there, nobody goes on from an older one.

        Gives its number, which is higher than that of any before, finished or not.
        """
        number = self._capture_begun() + 1
        self._table.commit([reached(self._capture_id, number)], "BEGIN CAPTURE")
        return number

    def check_capture(self) -> None:
        """Raise HistoryLostError when the last cut is of an older capture than the one that was begun last."""
        last = self.last()
        if last is not None and last.position.log_start.number < self._capture_begun():
            raise HistoryLostError("a recapture was begun and not finished", "run `cdc recapture` again")

    def _capture_begun(self) -> int:
        state = self._table.state()
        return state.transactions.get(self._capture_id, 1) if state else 1

    @property
    def _capture_id(self) -> str:
        return f"{self._lake.app_id}/capture"

    def look(self) -> None:
        """Let the next question look for what others have added."""
        self._table.look()

    def price(self) -> Price:
        """What making cuts costs."""
        return self._table.price()

    def maintain(self, hours: float, needed: int | None) -> None:
        """Keep the table small: cuts go that are older than so many hours, unless they are behind the one at `needed`.

        The newest cut always stays, and those from `needed` on, an END's offset where some follower stands.
        """
        last = self.last()
        if last is None:
            return
        horizon = datetime.now(UTC) - timedelta(hours=hours)
        since = last.position.end_offset if needed is None else min(needed, last.position.end_offset)
        kept = (pc.field("committed_at") >= pa.scalar(horizon)) | (pc.field("end_offset") >= since)
        self._table.maintain(hours, kept)

    def _found(self, state: State, end_offset: int) -> Cut | None:
        files = [file for file in state.files.values() if _bounds(file)[0] <= end_offset <= _bounds(file)[1]]
        rows = self._table.rows(files).filter(pc.field("end_offset") == end_offset).to_pylist()
        return cut_of(rows[-1]) if rows else None


def _bounds(file: DataFile) -> tuple[float, float]:
    """The lowest and the highest END's offset in a file; anything, where it does not say."""
    stats = json.loads(file.stats)
    lowest, highest = (stats.get(side, {}).get("end_offset") for side in ("minValues", "maxValues"))
    return (float("-inf") if lowest is None else lowest, float("inf") if highest is None else highest)
