"""The Delta follower: one table a table of the source, and a cut after every batch."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.batch import ChangeBatch, TableChanges, after_truncate, ranked
from cdc.columns.collapse import collapse
from cdc.columns.decode import changes_only
from cdc.columns.feed import required
from cdc.core.change import Place
from cdc.core.errors import HistoryLostError, PreconditionError, RefusedError
from cdc.core.position import BEFORE_LOG, Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.core.transaction import TransactionEnd
from sinks.lake import layout, refusals
from sinks.lake.copied_files import CopiedFiles, take_in
from sinks.lake.cuts import Cut, Cuts
from sinks.lake.layout import Lake
from sinks.lake.settings import DeltaSettings
from sinks.lake.table_list import TableList
from sinks.lake.write import Write, append, merge, replace, shape_of


@dataclass(frozen=True, slots=True)
class _Standing:
    """A table as the follower has it: its copy's bookmark, and the last END applied to it."""

    table: Table
    bookmark: Bookmark
    offset: int

    def lacks(self, ends: Sequence[TransactionEnd]) -> list[TransactionEnd]:
        return [end for end in ends if end.offset > self.offset and not self.bookmark.covers(end.lsn)]


class DeltaFollower:
    """A `Follower` of Parquet copies and `ChangeBatch`es."""

    def __init__(self, spark: SparkSession | None, settings: DeltaSettings, lake: Lake) -> None:
        self._spark = spark
        self._settings = settings
        self._lake = lake
        self._cuts = Cuts(lake)
        self._table_list = TableList(lake)
        self._adopted: set[TableName] = set()

    def prepare(self, tables: Sequence[Table]) -> None:
        """Refuse what is not ours, and make the lake's own tables; a captured table's comes with its copy."""
        for table in tables:
            layout.owned(self._lake, table.name)
        self._cuts.prepare()
        self._table_list.add([table.name for table in tables])

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None:
        """Take the copied files in with one commit; whatever the table held before is replaced by it."""
        layout.owned(self._lake, table.name)
        take_in(self._lake, table, copy, bookmark)

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return {name: standing.bookmark for name, standing in self._standings().items()}

    def tables(self) -> list[Table]:
        """The tables that are loaded, as they were when they were copied."""
        return [standing.table for standing in self._standings().values()]

    def position(self) -> Position | None:
        cut = self._cuts.last()
        return cut.position if cut else None

    def furthest(self) -> int:
        """The highest END offset that any table has: after a crash, further than the last cut."""
        return max((s.offset for s in self._standings().values()), default=BEFORE_LOG)

    def apply(self, batch: ChangeBatch, position: Position) -> None:
        before = self._cuts.last()
        if before is not None and position.end_offset <= before.position.end_offset:
            return
        standings = self._taking_part(before)
        self._apply_tables(batch, standings, position.end_offset)
        self._cuts.add(self._cut(standings, position, batch.ends[-1].committed_ms), before)

    def first_cut(self, committed_ms: int) -> None:
        """Mark the copies themselves as a cut, before any batch: it stands where the oldest of them does."""
        standings = self._standings()
        if self._cuts.last() is None and standings:
            lsn = min(standing.bookmark.lsn for standing in standings.values())
            position = Position(self._lake.generation, BEFORE_LOG, lsn, 0)
            self._cuts.add(self._cut(standings, position, committed_ms), None)

    def joining(self) -> dict[TableName, Bookmark]:
        """Tables whose copy is older than the position, and that took part in no cut: they lack what lies between."""
        part = self._taking_part(self._cuts.last())
        return {name: standing.bookmark for name, standing in self._standings().items() if name not in part}

    def adopt(self, names: Iterable[TableName]) -> None:
        """Let these tables take part: they have caught up with the position."""
        self._adopted |= set(names)

    def catch_up(self, batch: ChangeBatch) -> None:
        """Apply a batch from before the position to the joining tables only; no cut comes of it."""
        standings = {name: s for name, s in self._standings().items() if name in self.joining()}
        self._apply_tables(batch, standings, batch.ends[-1].offset)

    def _taking_part(self, last: Cut | None) -> dict[TableName, _Standing]:
        standings = self._standings()
        if last is None:
            return standings
        for name in last.versions:
            if TableName.parse(name) not in standings:
                raise HistoryLostError(f"{name} is gone from the lake {self._lake.path}", "run `cdc bootstrap` again")
        passed = last.position.lsn
        return {
            name: standing
            for name, standing in standings.items()
            if str(name) in last.versions or name in self._adopted or standing.bookmark.covers(passed)
        }

    def _cut(self, standings: Mapping[TableName, _Standing], position: Position, committed_ms: int) -> Cut:
        reached = [name for name, standing in standings.items() if standing.bookmark.is_reached_by(position.lsn)]
        return Cut(position, committed_ms, {str(name): self._version(name) for name in reached})

    def _standings(self) -> dict[TableName, _Standing]:
        return {s.table.name: s for s in map(self._standing, self._table_list.names()) if s}

    def _standing(self, name: TableName) -> _Standing | None:
        delta = layout.owned(self._lake, name)
        table = layout.described(delta) if delta else None
        bookmark = layout.bookmark(self._lake, delta) if delta else None
        if delta is None or table is None or bookmark is None:
            return None
        offset = delta.transaction_version(self._lake.app_id)
        return _Standing(table, bookmark, BEFORE_LOG if offset is None else offset)

    def _version(self, name: TableName) -> int:
        delta = layout.open_table(self._lake.folder(name))
        if delta is None:
            raise HistoryLostError(f"{self._lake.folder(name)} is gone", "run `cdc bootstrap` again")
        return int(delta.version())

    def _apply_tables(self, batch: ChangeBatch, standings: Mapping[TableName, _Standing], version: int) -> None:
        work = [(standings[name], changes) for name, changes in batch.tables.items() if name in standings]
        with ThreadPoolExecutor(self._settings.parallel_tables) as threads:
            futures = [threads.submit(self._apply_table, *item, batch.ends, version) for item in work]
            for future in futures:
                future.result()

    def _apply_table(
        self, standing: _Standing, changes: TableChanges, ends: Sequence[TransactionEnd], version: int
    ) -> None:
        lacking = standing.lacks(ends)
        if not lacking:
            return
        session = required(self._spark).newSession()
        write = Write(self._lake.folder(standing.table.name), self._lake.app_id, version)
        if _written(session, standing.table, changes, lacking, write, self._lake):
            self._check_written(standing.table.name, version)

    def _check_written(self, name: TableName, version: int) -> None:
        delta = layout.owned(self._lake, name)
        stands = delta.transaction_version(self._lake.app_id) if delta else None
        if stands != version:
            raise RefusedError(f"another writer moved {name} to offset {stands}", "stop the other `cdc follow`")


def _written(
    session: SparkSession,
    table: Table,
    changes: TableChanges,
    ends: Sequence[TransactionEnd],
    write: Write,
    lake: Lake,
) -> bool:
    """Write one table's part of a batch; says whether there was anything to commit."""
    truncated = _last_truncate(changes, ends)
    mine = after_truncate(ranked(changes, ends), truncated)
    if changes.refused:
        _refuse(lake, table, mine)
    net = collapse(changes_only(mine), table, moves=changes.moves).persist()
    try:
        shape = shape_of(net, table)
        if truncated:
            replace(net, table, write)
        elif shape.rows == shape.fresh_rows > 0:
            append(net, table, write)
        elif shape.rows:
            merge(session, net, table, shape, write)
        return bool(truncated or shape.rows)
    finally:
        net.unpersist()


def _last_truncate(changes: TableChanges, ends: Sequence[TransactionEnd]) -> Place | None:
    ranks = {end.offset for end in ends}
    return max((place for place in changes.truncates if place.rank in ranks), default=None)


def _refuse(lake: Lake, table: Table, mine: DataFrame) -> None:
    kept = refusals.keep(lake, refusals.refused(mine))
    if not kept:
        return
    raise PreconditionError(
        f"{table.name}: {len(kept)} messages cannot be read, first {kept[0]}",
        f"they are kept in {lake.own_folder(refusals.FOLDER)}; nothing of the batch was applied to the table",
    )
