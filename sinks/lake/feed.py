"""The feed of the followers behind the lake: cut by cut, what the commits from version to version changed.

A commit of ours names its change data: the data file of its rows, which is change data as well, and a small file of
deleted keys (Delta protocol, "Add CDC File"). Other commits are read as the protocol says: their change data, or the
rows of the files that came and went.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.arrow_types import arrow_schema, shaped
from cdc.columns.feed import FeedBatch, FeedRows, newest, required
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.cuts import Cut, Cuts
from sinks.lake.data_files import CHANGE_TYPE
from sinks.lake.delta_log import DeltaLog
from sinks.lake.delta_state import Action, DataFile, State
from sinks.lake.layout import Lake
from sinks.lake.live_rows import PART_ROWS, LakeCopy, Share, live_rows
from sinks.lake.recent import RecentChanges
from sinks.lake.storage import Storage


class LakeFeed:
    """Reads one lake for one follower behind it, which `holds` these of its tables."""

    def __init__(
        self,
        spark: SparkSession | None,
        lake: Lake,
        recent: RecentChanges | None = None,
        holds: Callable[[TableName], bool] = lambda _: True,
    ) -> None:
        self._spark = spark
        self._holds = holds
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
            raise HistoryLostError(
                f"the lake {self._lake.path} has no cut at offset {position.end_offset}",
                "the follower followed another lake: `cdc bootstrap` fills it anew from this one",
            )
        return cut

    def find(self, position: Position) -> Cut | None:
        """The cut of a follower's position, None where it followed another lake, or this one long ago."""
        cut = self._cuts.at(position.end_offset)
        return cut if cut and cut.position.lsn == position.lsn else None

    def newer(self, than: Cut, most: int) -> list[Cut]:
        """The first cuts behind this one, at most so many, in order."""
        return self._cuts.newer(than, most)

    def tables(self, cut: Cut) -> list[tuple[Table, Bookmark]]:
        """The follower's tables that take part in a cut, with the bookmarks of their copies."""
        found = (self._table(name, cut) for name in map(TableName.parse, cut.versions) if self._holds(name))
        return [each for each in found if each]

    def _table(self, name: TableName, cut: Cut) -> tuple[Table, Bookmark] | None:
        """The table as it was described at the cut; None for one that is followed no more."""
        log = self._log(name)
        if log is None:
            raise HistoryLostError(f"{self._lake.folder(name)} is gone", "run `cdc bootstrap` again")
        state, bookmark = log.state, layout.bookmark(self._lake, log.state)
        if bookmark and cut.versions[str(name)] < state.described_in:
            # it may have been copied again since, with other columns: the rows of this cut have those of then
            state = self._state(name, cut)
            bookmark = layout.bookmark(self._lake, state)
        table = layout.described(state)
        return (table, bookmark) if table and bookmark else None

    def _log(self, name: TableName) -> DeltaLog | None:
        """The table's log; opened anew once another table was put in its place."""
        known = self._logs.get(str(name))
        if known is not None:
            known.refresh()
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
        return required(self._spark).read.format("delta").option("versionAsOf", version).load(folder)

    def copy(self, table: Table, cut: Cut) -> LakeCopy:
        """A table's rows at a cut."""
        files = [*self._state(table.name, cut).files.values()]
        return LakeCopy(required(self._spark), table, self._lake.table(table.name), files)

    def row_count(self, name: TableName, cut: Cut) -> int:
        """How many rows a table has at a cut."""
        return self._state(name, cut).live_rows

    def _state(self, name: TableName, cut: Cut) -> State:
        log = layout.owned(self._lake, name, cut.versions[str(name)])
        if log is None:
            raise HistoryLostError(f"{name} is gone from the lake {self._lake.path}", "run `cdc bootstrap` again")
        return log.state

    def batch(self, tables: Sequence[Table], since: Cut, until: Cut) -> FeedBatch:
        """What changed in these tables after `since` up to `until`; tables that did not change are left out."""
        found: dict[TableName, Iterable[FeedRows]] = {}
        for table in tables:
            first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
            if first is not None and last is not None and first < last:
                # a generator: read when the follower takes it, and of a single version a part at a time
                found[table.name] = self._changed(table, range(first + 1, last + 1))
        return FeedBatch(found)

    def _changed(self, table: Table, versions: range) -> Iterator[FeedRows]:
        """The changes of some versions, in parts that share no key: one version's own, or all folded as one."""
        log = self._log(table.name)
        if log is None:
            raise HistoryLostError(f"{self._lake.folder(table.name)} is gone", "run `cdc bootstrap` again")
        # without bytes: a compaction, or a commit that speaks of the table only
        pieces = [piece for version in versions if (piece := self._version(table, log, version)).packed_bytes]
        if len(pieces) > 1:
            yield newest([_whole(piece, table) for piece in pieces], table)
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
        file = pq.ParquetFile(self.storage.open(path))
        for batch in file.iter_batches(PART_ROWS):
            found = pa.Table.from_batches([batch])
            kind = found[CHANGE_TYPE]
            there = found.filter(pc.is_in(kind, pa.array(["insert", "update_postimage"])))
            yield FeedRows(self._rows(there), found.filter(pc.equal(kind, "delete")).select(self.table.key))

    def _replaced(self) -> Iterator[FeedRows]:
        """Rows that went, then rows that came; a key that did both is there, so it is told last."""
        keys, rows = self._live("remove", self.table.key), self._live("add", self.table.column_names)
        before, after = FeedRows(rows.slice(0, 0), keys), FeedRows(rows, keys.slice(0, 0))
        yield newest([before, after], self.table)

    def _live(self, wanted: str, columns: Sequence[str]) -> pa.Table:
        """These columns of the live rows of all files that came, or went."""
        # a `remove` may come without statistics and size
        files = [
            DataFile.from_action({"stats": "{}", "size": 0, **file}) for kind, file in self._moved() if kind == wanted
        ]
        parts = (live_rows(self.storage, Share(file), self.table, columns) for file in files)
        empty = arrow_schema(self.table).empty_table().select(columns)
        return pa.concat_tables([empty, *chain.from_iterable(parts)])

    def _rows(self, found: pa.Table) -> pa.Table:
        return shaped(found, arrow_schema(self.table))


def _whole(version: _Version, table: Table) -> FeedRows:
    schema = arrow_schema(table)
    parts = list(version.parts())
    keys = pa.schema([schema.field(name) for name in table.key])
    return FeedRows(
        pa.concat_tables([schema.empty_table(), *(part.rows for part in parts)]),
        pa.concat_tables([keys.empty_table(), *(part.gone.cast(keys) for part in parts)]),
    )
