"""A lake of several tables with cuts, written without servers: the ground of views."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.sinks.lake.table.load import load_copy
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import apply, copy_rows, open_writer, write_copy
from tests.support.model import Change, CommitOrder, Delete, Insert, Key, Row, Truncate, Update


@dataclass
class CutLake:
    """`rows`: what each table has now."""

    lake: PlacedLake
    tables: Sequence[Table]
    rows: dict[str, dict[Key, Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cuts = Cuts(self.lake)
        self.cuts.prepare()
        self.rows = {table.name.table: {} for table in self.tables}
        self._ranks = count(1)
        self._pending = {table.name.table: list[Change]() for table in self.tables}
        self._writers = dict[str, TableWriter]()
        for table in self.tables:
            self.copy(table)

    def copy(self, table: Table, *, anew: bool = False) -> None:
        """Copy the table as it is."""
        rows = list(self.rows[table.name.table].values())
        if anew:
            load_copy(self.lake, table, [write_copy(self.lake, table, rows)], Bookmark(Lsn(1), 4711, 1), anew=True)
        else:
            copy_rows(self.lake, table, rows)
        self.reopen(table)

    def reopen(self, table: Table) -> None:
        """Go on from the table as it lies there."""
        self._writers[table.name.table] = open_writer(self.lake, table, f"index-{table.name.table}")

    def writer(self, name: str) -> TableWriter:
        return self._writers[name]

    def put(self, name: str, row: Row) -> None:
        """Insert a row, or update the one of its key."""
        table, rows = self._writers[name].table, self.rows[name]
        key = tuple(row[column] for column in table.key)
        kind = Update if key in rows else Insert
        self._pending[name].append(kind(table.name, self._next(name), key, row))
        rows[key] = row

    def delete(self, name: str, key: Key) -> None:
        if self.rows[name].pop(key, None) is not None:
            self._pending[name].append(Delete(self._writers[name].table.name, self._next(name), key))

    def truncate(self, name: str) -> None:
        self.rows[name].clear()
        self._pending[name].append(Truncate(self._writers[name].table.name, self._next(name)))

    def rows_at(self, cut: Cut) -> dict[TableName, tuple[Table, list[dict[str, Any]]]]:
        """Every table with its rows at the newest cut; nothing at another, or when more is pending."""
        writers = self._writers.values()
        is_newest = all(cut.versions[str(each.table.name)] == each.snapshot.version for each in writers)
        if not is_newest or any(self._pending.values()):
            return {}
        return {
            each.table.name: (each.table, [*map(dict, self.rows[each.table.name.table].values())]) for each in writers
        }

    def _next(self, name: str) -> CommitOrder:
        return CommitOrder(next(self._ranks), 1)

    def cut(self) -> Cut:
        """Apply what is pending in one commit a table, and add a cut."""
        rank = next(self._ranks)
        for name, changes in self._pending.items():
            if changes:
                apply(self._writers[name], changes, rank)
        self._pending = {name: [] for name in self._pending}
        snapshots = {str(writer.table.name): writer.snapshot for writer in self._writers.values()}
        position = Position(rank, Lsn(10 * rank), rank, cut=f"cut {rank}")
        cut = Cut(
            position,
            1_700_000_000_000 + rank,
            {name: snapshot.version for name, snapshot in snapshots.items()},
            {name: snapshot.table_id for name, snapshot in snapshots.items()},
            {name: snapshot.commit_id for name, snapshot in snapshots.items() if snapshot.commit_id},
        )
        self.cuts.add(cut, self.cuts.last())
        return cut
