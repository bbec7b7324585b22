"""The tables of a lake as its follower has them: opened once, each with the place up to which it has everything."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cdc.columns.ends import Ends
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.cuts import Cut
from sinks.lake.layout import Lake
from sinks.lake.live_table import LiveTable
from sinks.lake.stopped import Stop, StoppedTables
from sinks.lake.table_list import TableList


@dataclass(frozen=True, slots=True)
class Standing:
    """A table as the follower has it: its copy's bookmark, and the last END applied to it."""

    live: LiveTable
    bookmark: Bookmark
    offset: int

    @property
    def table(self) -> Table:
        return self.live.table

    @property
    def schema_lsn(self) -> Lsn:
        """That of the last schema change that the table took in."""
        return layout.schema_lsn(self.live.state)

    def is_in(self, cut: Cut) -> bool:
        """Is it this very Delta table that the cut has, and not one of its name that was lost and copied anew?"""
        name, id = str(self.table.name), self.live.state.table_id
        return name in cut.versions and cut.ids.get(name, id) == id

    def applied(self, ends: Ends) -> int:
        """The offset of the last of these ENDs that the table has, by its copy or by a batch."""
        # ENDs stand in the order of their LSNs: what the copy has is the first part of them
        covered = ends.offset[ends.lsn <= self.bookmark.lsn]
        return max(self.offset, int(covered[-1]) if len(covered) else BEFORE_LOG)


class Standings:
    """The tables that have a copy, those that are stopped among them; `indexes` is a folder for the indexes of keys."""

    def __init__(self, lake: Lake, indexes: Path) -> None:
        self._lake = lake
        self._indexes = indexes
        self._table_list = TableList(lake)
        self._stopped = StoppedTables(lake)
        self._tables: dict[TableName, LiveTable] = {}

    def is_listed(self, name: TableName) -> bool:
        """Is it one of the lake's tables, with or without a copy?"""
        return name in self._table_list.names()

    def add(self, names: Sequence[TableName]) -> None:
        """List tables whose copies are still to be made."""
        self._table_list.add(names)

    def remove(self, names: Collection[TableName]) -> None:
        """List tables no more."""
        self._table_list.remove(names)

    def forget(self, names: Iterable[TableName]) -> None:
        """Look at tables anew: somebody has put others in their places."""
        for name in names:
            self._tables.pop(name, None)

    def opened(self) -> list[tuple[TableName, LiveTable]]:
        """The tables that were looked at so far; safe beside the thread that opens others."""
        return list(self._tables.items())

    def ids(self) -> list[str] | None:
        """The ids of all tables, None while one was not looked at yet; safe beside the thread that opens them."""
        opened = dict(self._tables)
        if not set(self._table_list.names()) <= opened.keys():
            return None
        return [live.state.table_id for live in opened.values()]

    def going(self, among: Mapping[TableName, Standing] | None = None) -> dict[TableName, Standing]:
        """The tables that are not stopped; `among`: of these only, which nobody has to look up again."""
        stops = self._stopped.by_id()
        standings = self.all() if among is None else among
        return {name: s for name, s in standings.items() if s.live.state.table_id not in stops}

    def all(self) -> dict[TableName, Standing]:
        """All tables that have a copy."""
        return {s.table.name: s for s in map(self.of, self._table_list.names()) if s}

    def of(self, name: TableName) -> Standing | None:
        """A table as it stands now; None without a copy."""
        live = self._tables.get(name) or self._opened(name)
        mark = layout.bookmark(self._lake, live.state) if live else None
        if live is None or mark is None:
            return None
        offset = live.state.transactions.get(self._lake.app_id)
        return Standing(live, mark, BEFORE_LOG if offset is None else offset)

    def _opened(self, name: TableName) -> LiveTable | None:
        log = layout.owned(self._lake, name)
        table = layout.described(log.state) if log else None
        if log is None or table is None:
            return None
        folder = self._indexes / layout.folder_name(name)
        live = self._tables[name] = LiveTable(table, self._lake.table(name), log, folder)
        return live

    def stopped(self) -> list[Stop]:
        """The tables that are followed no further."""
        stops = self._stopped.by_id()
        found = (stops.get(standing.live.state.table_id) for standing in self.all().values())
        return [stop for stop in found if stop]

    def stop(self, reasons: Mapping[TableName, str], lsn: Lsn, copy: Collection[TableName] = ()) -> list[Stop]:
        """Apply nothing further to these tables: the others go on, and cuts no longer have them.

        `lsn` is where the others stand; `copy`: those that whoever follows is to copy again.
        """
        going = self.going()
        stops = [
            Stop(
                going[name].live.state.table_id,
                name.schema,
                name.table,
                max(lsn, going[name].bookmark.lsn),
                reason,
                name in copy,
            )
            for name, reason in reasons.items()
            if name in going
        ]
        # what stopped before, and is to be copied now
        again = [replace(stop, copy=True) for stop in self.stopped() if stop.name in copy and not stop.copy]
        stops += [stop for stop in again if stop.name in reasons]
        if stops:
            self._stopped.add(stops)
        return stops
