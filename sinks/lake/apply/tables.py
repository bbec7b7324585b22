"""The lake's tables as its follower has them: opened once, each with its applied position."""

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
from sinks.lake.delta.damage import loss_reason
from sinks.lake.delta.log import LogDamagedError
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cut
from sinks.lake.metadata.stopped_tables import StoppedTable, StoppedTables
from sinks.lake.metadata.table_list import TableList
from sinks.lake.table.writer import TableWriter

GONE: Final = "it is gone from the lake"
REOPEN_SECONDS: Final = 10.0
"""Pause before another attempt to open a table."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table with its copy's bookmark and the offset of the last applied END."""

    writer: TableWriter
    bookmark: Bookmark
    offset: int

    @property
    def table(self) -> Table:
        """The captured table as it was copied, with columns added since."""
        return self.writer.table

    @property
    def schema_lsn(self) -> Lsn:
        """LSN of the last schema change that the table includes."""
        return layout.schema_lsn(self.writer.snapshot)

    def is_in(self, cut: Cut) -> bool:
        """Whether the cut has this Delta table, not one of the same name that was lost and copied again."""
        name, id = str(self.table.name), self.writer.snapshot.table_id
        return name in cut.versions and cut.ids.get(name, id) == id

    def describe_divergence(self, cut: Cut) -> str | None:
        """Why the table is neither the cut's version nor a successor of it; None when it is."""
        name, log = str(self.table.name), self.writer.log
        version, id = cut.versions[name], cut.commits.get(name)
        # cuts are written after their tables: a higher version in a cut means lost commits
        if log.snapshot.version < version:
            return f"it was put back to version {log.snapshot.version}, and the last cut has version {version}"
        # unknown for a version that left the log, or a cut without ids
        if id is not None and (log.commit_id(version) or id) != id:
            return f"its version {version} is another than the last cut has: it was put back to an older state"
        try:
            log.check_skipped_commits(version)
            self.writer.check()
        except (LogDamagedError, TableLostError) as error:
            return loss_reason(error)
        return None

    def last_applied(self, ends: Ends) -> int:
        """The offset of the last of these ENDs that the table has, from its copy or a batch."""
        # ENDs are in LSN order: the copy covers a prefix
        covered = ends.offset[ends.lsn <= self.bookmark.lsn]
        return max(self.offset, int(covered[-1]) if len(covered) else BEFORE_LOG)


class FollowedTables:
    """All tables with a copy, stopped ones included; `indexes` is the folder of their key indexes."""

    def __init__(self, lake: Lake, indexes: Path, look_seconds: float = 0.0) -> None:
        self._lake = lake
        self._indexes = indexes
        self._table_list = TableList(lake, look_seconds)
        self._stopped = StoppedTables(lake)
        self._writers: dict[TableName, TableWriter] = {}
        # tables that failed to open: reason, and the time of the next attempt
        self._lost: dict[TableName, tuple[str, float]] = {}

    def is_listed(self, name: TableName) -> bool:
        """Whether the lake lists this table, with or without a copy."""
        return name in self._table_list.names()

    def add(self, names: Sequence[TableName]) -> None:
        """List tables that are to be copied."""
        self._table_list.add(names)

    def remove(self, names: Collection[TableName]) -> None:
        """Remove tables from the list."""
        self._table_list.remove(names)

    def forget(self, names: Iterable[TableName]) -> None:
        """Reopen tables on next use: they were copied again."""
        self._table_list.invalidate()
        for name in names:
            self._writers.pop(name, None)
            self._lost.pop(name, None)

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The tables opened so far; safe beside the thread that opens tables."""
        return list(self._writers.items())

    def table_ids(self) -> list[str] | None:
        """The ids of all tables; None until all are open. Safe beside the thread that opens tables."""
        opened = dict(self._writers)
        if not set(self._table_list.names()) <= opened.keys():
            return None
        return [writer.snapshot.table_id for writer in opened.values()]

    def active(self, among: Mapping[TableName, FollowedTable] | None = None) -> dict[TableName, FollowedTable]:
        """The tables that are not stopped; `among`: look only at these."""
        stops = self._stopped.by_id()
        tables = self.all() if among is None else among
        return {name: s for name, s in tables.items() if s.writer.snapshot.table_id not in stops}

    def all(self) -> dict[TableName, FollowedTable]:
        """All tables with a copy."""
        return {s.table.name: s for s in map(self.find, self._table_list.names()) if s}

    def find(self, name: TableName) -> FollowedTable | None:
        """A table as it is now; None without a copy, or when it cannot be opened (`_lost` has the reason)."""
        writer = self._writers.get(name) or self._try_open(name)
        mark = layout.bookmark(self._lake, writer.snapshot) if writer else None
        if writer is None or mark is None:
            return None
        offset = writer.snapshot.transactions.get(self._lake.app_id)
        return FollowedTable(writer, mark, BEFORE_LOG if offset is None else offset)

    def find_diverged(self, cut: Cut) -> dict[TableName, str]:
        """The tables that are neither the cut's version nor a successor of it, with reasons."""
        reasons = {name: table.describe_divergence(cut) for name, table in self.active().items() if table.is_in(cut)}
        return {name: reason for name, reason in reasons.items() if reason}

    def _find_lost(self, cut: Cut) -> dict[TableName, str]:
        """The cut's tables that are gone or cannot be opened, with reasons."""
        names = [name for name in map(TableName.parse, cut.versions) if self.find(name) is None]
        # released tables are no longer listed
        listed = self._table_list.names() if names else ()
        return {name: self._lost[name][0] if name in self._lost else GONE for name in names if name in listed}

    def _try_open(self, name: TableName) -> TableWriter | None:
        _, until = self._lost.get(name, ("", 0.0))
        # each attempt reads the log: a broken table must not slow every batch down
        if time.monotonic() < until:
            return None
        try:
            writer = self._open(name)
        except (TableLostError, PreconditionError) as error:
            self._lost[name] = (loss_reason(error), time.monotonic() + REOPEN_SECONDS)
            return None
        self._lost.pop(name, None)
        return writer

    def _open(self, name: TableName) -> TableWriter | None:
        log = layout.open_owned_log(self._lake, name)
        table = layout.table_of(log.snapshot) if log else None
        if log is None or table is None:
            return None
        folder = self._indexes / layout.folder_name(name)
        writer = self._writers[name] = TableWriter(table, self._lake.table_storage(name), log, folder)
        return writer

    def list_stops(self) -> list[StoppedTable]:
        """The stops of present tables, and of listed ones that cannot be opened."""
        stops, tables = self._stopped.by_id(), self.all()
        present = [stops.get(table.writer.snapshot.table_id) for table in tables.values()]
        # an unopened table's id is unknown: go by its name
        last = {stop.name: stop for stop in stops.values()}
        present += [last[name] for name in last.keys() - self._writers.keys() if self.is_listed(name)]
        return [stop for stop in present if stop]

    def stop_lost(self, cut: Cut) -> list[StoppedTable]:
        """Stop the cut's tables that are gone or cannot be opened; they get a new copy. Returns the new stops."""
        if not (reasons := self._find_lost(cut)):
            return []
        # a stop without `copy` may exist: this one asks for a copy
        known = {stop.table_id for stop in self._stopped.by_id().values() if stop.copy}
        # old cuts lack ids; the table's name serves, as no copy has it for an id
        ids = {name: cut.ids.get(str(name), str(name)) for name in reasons}
        stops = [
            StoppedTable(ids[name], name.schema, name.table, cut.position.lsn, reason, True)
            for name, reason in reasons.items()
            if ids[name] not in known
        ]
        if stops:
            self._stopped.add(stops)
        return stops

    def stop(self, reasons: Mapping[TableName, str], lsn: Lsn, copy: Collection[TableName] = ()) -> list[StoppedTable]:
        """Stop these tables: they leave the cuts, and the others go on. Returns the new stops.

        `lsn`: the position of the others. `copy`: tables that `cdc follow` copies again.
        """
        going = self.active()
        stops = [
            StoppedTable(
                going[name].writer.snapshot.table_id,
                name.schema,
                name.table,
                max(lsn, going[name].bookmark.lsn),
                reason,
                name in copy,
            )
            for name, reason in reasons.items()
            if name in going
        ]
        # stopped earlier, and now marked for a new copy
        again = [replace(stop, copy=True) for stop in self.list_stops() if stop.name in copy and not stop.copy]
        stops += [stop for stop in again if stop.name in reasons]
        if stops:
            self._stopped.add(stops)
        return stops
