"""The tables of a lake as its follower has them: opened once, each with the place up to which it has everything."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cdc.columns.netting.transactions import Ends
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.delta.damage import why
from sinks.lake.delta.log import LogDamagedError
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cut
from sinks.lake.metadata.stopped_tables import Stop, StoppedTables
from sinks.lake.metadata.table_list import TableList
from sinks.lake.table.writer import LiveTable

GONE: Final = "it is gone from the lake"
LOST_SECONDS: Final = 10.0
"""Until it is tried again to open a table that could not be."""


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

    def strayed(self, cut: Cut) -> str | None:
        """How it is not the table any more that the cut names, nor one that came from it; None where it is."""
        name, log = str(self.table.name), self.live.log
        version, id = cut.versions[name], cut.commits.get(name)
        if log.state.version < version:
            return f"it was put back to version {log.state.version}, and the last cut has version {version}"
        # of a version that is long gone from the log, or of a cut without ids, nobody can say
        if id is not None and (log.commit_id(version) or id) != id:
            return f"its version {version} is another than the last cut has: it was put back to an older state"
        try:
            log.look_for_others(version)
            self.live.check()
        except (LogDamagedError, TableLostError) as error:
            return why(error)
        return None

    def applied(self, ends: Ends) -> int:
        """The offset of the last of these ENDs that the table has, by its copy or by a batch."""
        # ENDs stand in the order of their LSNs: what the copy has is the first part of them
        covered = ends.offset[ends.lsn <= self.bookmark.lsn]
        return max(self.offset, int(covered[-1]) if len(covered) else BEFORE_LOG)


class Standings:
    """The tables that have a copy, those that are stopped among them; `indexes` is a folder for the indexes of keys."""

    def __init__(self, lake: Lake, indexes: Path, look_seconds: float = 0.0) -> None:
        self._lake = lake
        self._indexes = indexes
        self._table_list = TableList(lake, look_seconds)
        self._stopped = StoppedTables(lake)
        self._tables: dict[TableName, LiveTable] = {}
        # tables that cannot be opened: why, and when that was tried
        self._lost: dict[TableName, tuple[str, float]] = {}

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
        self._table_list.look()
        for name in names:
            self._tables.pop(name, None)
            self._lost.pop(name, None)

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
        """A table as it stands now; None without a copy, or where it cannot be opened: see `lost`."""
        live = self._tables.get(name) or self._tried(name)
        mark = layout.bookmark(self._lake, live.state) if live else None
        if live is None or mark is None:
            return None
        offset = live.state.transactions.get(self._lake.app_id)
        return Standing(live, mark, BEFORE_LOG if offset is None else offset)

    def strayed(self, cut: Cut) -> dict[TableName, str]:
        """The tables that are not what the cut names, nor came from it, each with the reason."""
        found = {name: standing.strayed(cut) for name, standing in self.going().items() if standing.is_in(cut)}
        return {name: reason for name, reason in found.items() if reason}

    def _lost_of(self, cut: Cut) -> dict[TableName, str]:
        """The tables of a cut that are gone from the lake or cannot be opened, each with the reason."""
        names = [name for name in map(TableName.parse, cut.versions) if self.of(name) is None]
        # those that were released are no more of the lake's
        listed = self._table_list.names() if names else ()
        return {name: self._lost[name][0] if name in self._lost else GONE for name in names if name in listed}

    def _tried(self, name: TableName) -> LiveTable | None:
        _, until = self._lost.get(name, ("", 0.0))
        if time.monotonic() < until:
            return None
        try:
            live = self._opened(name)
        except (TableLostError, PreconditionError) as error:
            self._lost[name] = (why(error), time.monotonic() + LOST_SECONDS)
            return None
        self._lost.pop(name, None)
        return live

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
        stops, standings = self._stopped.by_id(), self.all()
        found = [stops.get(standing.live.state.table_id) for standing in standings.values()]
        # of one that is gone or cannot be opened nobody knows the id
        last = {stop.name: stop for stop in stops.values()}
        found += [last[name] for name in last.keys() - self._tables.keys() if self.is_listed(name)]
        return [stop for stop in found if stop]

    def stop_lost(self, cut: Cut) -> list[Stop]:
        """Stop the tables of a cut that are gone or cannot be opened, by the ids that it has of them; to be copied
        again."""
        if not (reasons := self._lost_of(cut)):
            return []
        known = {stop.table_id for stop in self._stopped.by_id().values() if stop.copy}
        # cuts of older versions of ours have no ids: nor will the copy have one like that
        ids = {name: cut.ids.get(str(name), str(name)) for name in reasons}
        stops = [
            Stop(ids[name], name.schema, name.table, cut.position.lsn, reason, True)
            for name, reason in reasons.items()
            if ids[name] not in known
        ]
        if stops:
            self._stopped.add(stops)
        return stops

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
