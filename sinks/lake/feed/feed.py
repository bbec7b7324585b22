"""The feed of the followers behind the lake: cut by cut, what the commits from version to version changed.

A commit of ours names its change data: the data file of its rows, which is change data as well, and a small file of
deleted keys (Delta protocol, "Add CDC File"). Other commits are read as the protocol says: their change data, or the
rows of the files that came and went.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedRows, merge_versions
from cdc.columns.spark_tasks import require_spark
from cdc.columns.values.arrow_types import arrow_schema, conform
from cdc.core.errors import HistoryLostError, PreconditionError, TableLostError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.delta.damage import files_of, parts_of
from sinks.lake.delta.data_files import CHANGE_TYPE
from sinks.lake.delta.log import DeltaLog, LogDamagedError
from sinks.lake.delta.scan import PART_ROWS, LakeCopy, Share, live_rows
from sinks.lake.delta.snapshot import Action, DataFile, State, commit_id
from sinks.lake.feed.change_cache import RecentChanges
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cut, Cuts
from sinks.lake.storage.base import Storage


class LakeFeed:
    """Reads one lake for one follower behind it, which `holds` the tables of these names, where they fit into it."""

    def __init__(
        self,
        spark: SparkSession | None,
        lake: Lake,
        recent: RecentChanges | None = None,
        holds: Callable[[TableName], bool] = lambda _: True,
        fits: Callable[[Table], bool] = lambda _: True,
    ) -> None:
        self._spark = spark
        self.holds = holds
        self._fits = fits
        self._kept: set[TableName] = set()
        self._lake = lake
        self._recent = recent or RecentChanges()
        self._cuts = Cuts(lake)
        self._logs: dict[str, DeltaLog] = {}

    def last(self) -> Cut:
        """The newest cut; raises HistoryLostError when the lake has none."""
        cut = self._cuts.last()
        if cut is None:
            raise HistoryLostError("the lake has no copy to follow", "run `cdc bootstrap` first")
        return cut

    def at(self, position: Position) -> Cut:
        """The cut of a follower's position; raises HistoryLostError when this lake has none there."""
        cut = self.find(position)
        if cut is None:
            raise self._without(position)
        return cut

    def _without(self, position: Position) -> HistoryLostError:
        """There is no such cut in this lake."""
        last = self.last().position.end_offset
        ahead = f", its newest is at {last}" if position.end_offset > last else " any more"
        return HistoryLostError(
            f"the lake {self._lake.path} has no cut at offset {position.end_offset}{ahead}: the follower followed"
            " another lake, or this one was put back to an older state",
            "`cdc bootstrap` fills it anew from this one",
        )

    def find(self, position: Position) -> Cut | None:
        """The cut of a follower's position, None where it followed another lake, this one long ago, or before that was
        put back to an older state."""
        cut = self._cuts.at(position.end_offset)
        if cut is None or cut.position.lsn != position.lsn:
            return None
        # older versions of ours gave cuts no ids
        same = None in (cut.position.cut, position.cut) or cut.position.cut == position.cut
        return cut if same else None

    def newer(self, than: Cut, most: int) -> list[Cut]:
        """The first cuts behind this one, at most so many, in order; raises HistoryLostError when it is none of this
        lake any more."""
        found = self._cuts.newer(than, most)
        if found and not found[0].is_next(than):
            raise self._without(than.position)
        return found

    def tables(self, cut: Cut) -> list[tuple[Table, Bookmark]]:
        """The follower's tables that take part in a cut, with the bookmarks of their copies."""
        found = (self._table(name, cut) for name in map(TableName.parse, cut.versions) if self.holds(name))
        return [each for each in found if each and self._is_own(each[0])]

    def readable(
        self, cut: Cut, but: Collection[TableName] = ()
    ) -> tuple[list[tuple[Table, Bookmark]], list[TableName]]:
        """The same without these, and of those the names that cannot be read as the cut has them."""
        found, unread = list[tuple[Table, Bookmark]](), list[TableName]()
        for name in map(TableName.parse, cut.versions):
            if self.holds(name) and name not in but:
                try:
                    each = self._table(name, cut)
                    found += [each] if each and self._is_own(each[0]) else []
                except HistoryLostError:
                    unread.append(name)
        return found, unread

    def _is_own(self, table: Table) -> bool:
        return table.name in self._kept or self._fits(table)

    def keep(self, names: Iterable[TableName]) -> None:
        """Give the follower these tables also where they do not fit: it has them, and tells what it cannot hold."""
        self._kept |= set(names)

    def _table(self, name: TableName, cut: Cut) -> tuple[Table, Bookmark] | None:
        """The table as it was described at the cut; None for one that is followed no more."""
        log = self._log(name)
        if log is None:
            raise TableLostError(name, "it is gone from the lake")
        state, bookmark = log.state, layout.bookmark(self._lake, log.state)
        version = cut.versions[str(name)]
        if version > state.version:
            raise TableLostError(name, f"version {version} of a cut is gone from the lake")
        if bookmark and version < state.described_in:
            # it may have been copied again since, with other columns: the rows of this cut have those of then
            state = self._state(name, cut)
            bookmark = layout.bookmark(self._lake, state)
        table = layout.described(state)
        return (table, bookmark) if table and bookmark else None

    def _log(self, name: TableName) -> DeltaLog | None:
        """The table's log; opened anew once another table was put in its place. Raises TableLostError."""
        known = self._logs.get(str(name))
        if known is not None:
            try:
                known.refresh()
            except LogDamagedError as error:
                raise TableLostError(name, error.what) from error
            return known
        found = layout.owned(self._lake, name)
        if found is not None:
            self._logs[str(name)] = found
        return found

    def forget(self) -> None:
        """Read everything anew: a table may have been replaced."""
        self._logs = {}

    def place(self, name: TableName) -> tuple[str, int]:
        """A table's folder, and its version at the newest cut; raises PreconditionError where that has none."""
        versions = self.last().versions
        if str(name) not in versions:
            raise PreconditionError(f"{name} is in no cut of the lake yet", "run `cdc bootstrap`, then follow")
        return self._lake.folder(name), versions[str(name)]

    def rows(self, table: Table) -> DataFrame:
        """A table of the lake as it stands at the newest cut."""
        folder, version = self.place(table.name)
        return require_spark(self._spark).read.format("delta").option("versionAsOf", version).load(folder)

    def copy(self, table: Table, cut: Cut) -> LakeCopy:
        """A table's rows at a cut; the follower has the table from then on."""
        self.keep([table.name])
        files = [*self._state(table.name, cut).files.values()]
        return LakeCopy(require_spark(self._spark), table, self._lake.table(table.name), files)

    def row_count(self, name: TableName, cut: Cut) -> int:
        """How many rows a table has at a cut."""
        return self._state(name, cut).live_rows

    def _state(self, name: TableName, cut: Cut) -> State:
        log = layout.owned(self._lake, name, cut.versions[str(name)])
        if log is None:
            raise TableLostError(name, "it is gone from the lake")
        # with one id, or none that is known, the same version may still be another, of a table that was put back
        for known, found in ((cut.ids, log.state.table_id), (cut.commits, log.state.commit)):
            if found is not None and known.get(str(name), found) != found:
                raise TableLostError(name, f"version {log.state.version} of a cut is another one in the lake now")
        return log.state

    def changes(self, table: Table, since: Cut, until: Cut) -> Iterable[FeedRows]:
        """What changed in a table after `since` up to `until`, nothing where it is not in both. Raises HistoryLostError
        where the lake does not tell that any more, also while it is read."""
        first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
        if first is None or last is None or first >= last:
            return ()
        log = self._log(table.name)
        if log is None:
            raise TableLostError(table.name, "it is gone from the lake")
        # without bytes: a compaction, or a commit that speaks of the table only
        versions = [self._version(table, log, version) for version in range(first + 1, last + 1)]
        named = until.commits.get(str(table.name))
        if named and versions[-1].actions and commit_id(versions[-1].actions) != named:
            raise TableLostError(table.name, f"version {last} of a cut is another one in the lake now")
        # read when the follower takes it, and of a single version a part at a time
        return _Parts(partial(self._changed, table, [version for version in versions if version.packed_bytes]))

    def _changed(self, table: Table, pieces: Sequence["_Version"]) -> Iterator[FeedRows]:
        """The changes of some versions, in parts that share no key: one version's own, or all folded as one."""
        if len(pieces) > 1:
            yield merge_versions([_whole(piece, table) for piece in pieces], table)
        for piece in pieces if len(pieces) == 1 else ():
            yield from piece.parts()

    def packed_bytes(self, tables: Sequence[Table], since: Cut, until: Cut) -> int:
        """How much change data lies between two cuts, at most of any table."""
        return max((self._packed(table, since, until) for table in tables), default=0)

    def _packed(self, table: Table, since: Cut, until: Cut) -> int:
        first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
        log = self._log(table.name)
        if first is None or last is None or log is None:
            return 0
        return sum(self._version(table, log, version).packed_bytes for version in range(first + 1, last + 1))

    def _version(self, table: Table, log: DeltaLog, version: int) -> "_Version":
        known = self._recent.get(log.state.table_id, version)
        actions = [] if known else log.actions(version)
        return _Version(table, self._lake.table(table.name), actions, version, known)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Changes that are read anew whenever they are iterated over."""

    read: Callable[[], Iterator[FeedRows]]

    def __iter__(self) -> Iterator[FeedRows]:
        return self.read()


@dataclass(frozen=True, slots=True)
class _Version:
    """One commit of one table: what it changed, in memory or in files."""

    table: Table
    storage: Storage
    actions: Sequence[Action]
    version: int
    known: FeedRows | None

    @property
    def packed_bytes(self) -> int:
        if self.known is not None:
            return self.known.nbytes
        if named := self._change_data():
            return sum(size for _, size in named)
        return sum(int(file["size"]) for _, file in self._moved())

    def parts(self) -> Iterator[FeedRows]:
        """The changes, part by part."""
        if self.known is not None:
            yield FeedRows(self._rows(self.known.rows), self.known.gone)
        elif named := self._change_data():
            for path, _ in named:
                yield from self._read_changes(path)
        else:
            yield from self._replaced()

    def _change_data(self) -> list[tuple[str, int]]:
        return [(action["cdc"]["path"], int(action["cdc"]["size"])) for action in self.actions if "cdc" in action]

    def _moved(self) -> list[tuple[str, dict[str, Any]]]:
        """The files that came and went with other rows in them; compaction moves rows and changes none."""
        return [
            (kind, action[kind])
            for action in self.actions
            for kind in ("add", "remove")
            if kind in action and action[kind].get("dataChange", True)
        ]

    def _read_changes(self, path: str) -> Iterator[FeedRows]:
        with files_of(self.table.name, path):
            batches = pq.ParquetFile(self.storage.open(path)).iter_batches(PART_ROWS)
        for batch in parts_of(batches, self.table, path):
            found = pa.Table.from_batches([batch])
            kind = found[CHANGE_TYPE]
            there = found.filter(pc.is_in(kind, pa.array(["insert", "update_postimage"])))
            yield FeedRows(self._rows(there), found.filter(pc.equal(kind, "delete")).select(self.table.key))

    def _replaced(self) -> Iterator[FeedRows]:
        """Rows that went, then rows that came; a key that did both is there, so it is told last."""
        keys, rows = self._live("remove", self.table.key), self._live("add", self.table.column_names)
        before, after = FeedRows(rows.slice(0, 0), keys), FeedRows(rows, keys.slice(0, 0))
        yield merge_versions([before, after], self.table)

    def _live(self, wanted: str, columns: Sequence[str]) -> pa.Table:
        """These columns of the live rows of all files that came, or went."""
        # a `remove` may come without statistics and size
        files = [
            DataFile.from_action({"stats": "{}", "size": 0, **file}) for kind, file in self._moved() if kind == wanted
        ]
        parts = (
            parts_of(live_rows(self.storage, Share(file), self.table, columns), self.table, file.path) for file in files
        )
        empty = arrow_schema(self.table).empty_table().select(columns)
        return pa.concat_tables([empty, *chain.from_iterable(parts)])

    def _rows(self, found: pa.Table) -> pa.Table:
        return conform(found, arrow_schema(self.table))


def _whole(version: _Version, table: Table) -> FeedRows:
    schema = arrow_schema(table)
    parts = list(version.parts())
    keys = pa.schema([schema.field(name) for name in table.key])
    return FeedRows(
        pa.concat_tables([schema.empty_table(), *(part.rows for part in parts)]),
        pa.concat_tables([keys.empty_table(), *(part.gone.cast(keys) for part in parts)]),
    )
