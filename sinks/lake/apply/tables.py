"""The lake's tables as its follower has them: opened once, each with its applied position."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cdc.columns.netting.ends import Ends
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.fail_points import reach
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE, Joining, TableState, state_of
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.damage import loss_reason
from cdc.sinks.lake.delta.log import LogDamagedError
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable, StoppedTables
from cdc.sinks.lake.metadata.table_list import TableList
from cdc.sinks.lake.table.writer import TableWriter

GONE: Final = "it is gone from the lake"
PUT_BACK: Final = "it was put back to a copy from before its last one"
REOPEN_SECONDS: Final = 10.0
"""Pause before another attempt to open a table."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table that has a copy, in whatever state: the copy's bookmark, and the offset of the last applied END."""

    writer: TableWriter
    bookmark: Bookmark
    offset: int

    @property
    def table(self) -> Table:
        """The captured table as it was copied, with columns added since."""
        return self.writer.table

    @property
    def id(self) -> str:
        """The Delta table's id; a new copy of a lost or stopped table has another one."""
        return self.writer.snapshot.table_id

    def lacks_schema(self, lsn: Lsn) -> bool:
        """Whether a schema change at this LSN is neither in the copy nor applied."""
        return not self.bookmark.covers(lsn) and lsn > layout.schema_lsn(self.writer.snapshot)

    def is_in(self, cut: Cut) -> bool:
        """Whether the cut has this Delta table, not one of the same name that was lost and copied again."""
        name = str(self.table.name)
        return name in cut.versions and cut.ids[name] == self.id

    def is_at(self, cut: Cut) -> bool:
        """Whether the table, as it was read, is the cut's version."""
        name, snapshot = str(self.table.name), self.writer.snapshot
        is_same = self.is_in(cut) and cut.versions[name] == snapshot.version
        return is_same and snapshot.commit_id is not None and cut.commits.get(name) == snapshot.commit_id

    def describe_divergence(self, cut: Cut) -> str | None:
        """Why the table is neither the cut's version nor a successor of it; None when it is."""
        name, log = str(self.table.name), self.writer.log
        version, id = cut.versions[name], cut.commits.get(name)
        # cuts are written after their tables: a higher version in a cut means lost commits
        if log.snapshot.version < version:
            return f"it was put back to version {log.snapshot.version}, and the last cut has version {version}"
        # unknown for a version that left the log, or that only a checkpoint told of
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


class LakeTables:
    """The tables of a lake: opened once, each with its state (`cdc.core.table_state`).

    `indexes` is the folder of their key indexes.
    """

    def __init__(self, lake: Lake, indexes: Path, cuts: Cuts, look_seconds: float = 0.0) -> None:
        self._lake = lake
        self._indexes = indexes
        self._cuts = cuts
        self._table_list = TableList(lake, look_seconds)
        self._stopped = StoppedTables(lake)
        self._writers: dict[TableName, TableWriter] = {}
        # tables that failed to open: reason, and the time of the next attempt
        self._lost: dict[TableName, tuple[str, float]] = {}
        # by Delta table id: a new copy has to be adopted again
        self._adopted: set[str] = set()

    def is_listed(self, name: TableName) -> bool:
        """Whether the lake lists this table, with or without a copy."""
        return name in self._table_list.names()

    def list_names(self) -> list[TableName]:
        """The listed tables, with or without a copy, sorted by name."""
        return self._table_list.names()

    def add(self, names: Sequence[TableName]) -> None:
        """List tables that are to be copied."""
        self._table_list.add(names)

    def remove(self, names: Collection[TableName]) -> None:
        self._table_list.remove(names)

    def forget(self, names: Iterable[TableName]) -> None:
        """Reopen tables on next use: they were copied again."""
        self._table_list.invalidate()
        for name in names:
            self._writers.pop(name, None)
            self._lost.pop(name, None)

    def look_again(self, names: Iterable[TableName]) -> None:
        """See what other processes have stopped since, and reopen these tables and the stopped ones on next use."""
        self._stopped.invalidate()
        # a stopped one may have a new copy by now
        self.forget([*names, *(stop.name for stop in self.stops())])

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The tables opened so far; safe beside the thread that opens tables."""
        return list(self._writers.items())

    def table_ids(self) -> list[str] | None:
        """The ids of all tables; None until all are open. Safe beside the thread that opens tables."""
        opened = dict(self._writers)
        if not set(self._table_list.names()) <= opened.keys():
            return None
        return [writer.snapshot.table_id for writer in opened.values()]

    def states(self) -> dict[TableName, TableState]:
        """The state of every listed table."""
        tables, cut, stops = self.all(), self._cuts.last(), {stop.name: stop for stop in self.stops()}
        return {
            name: _state(tables.get(name), stops.get(name), cut, self._adopted) for name in self._table_list.names()
        }

    def select(self, *states: type[TableState], at: Position | None = None) -> dict[TableName, LakeTable]:
        """The tables with a copy that are in one of these states; `at`: by the cut at this position, not the last."""
        cut = self._cuts.find(at.end_offset) if at else self._cuts.last()
        # tables that wait for the next cut are in no earlier one
        adopted, stops = () if at else self._adopted, self._stopped.by_id()
        return {
            name: table
            for name, table in self.all().items()
            if isinstance(_state(table, stops.get(table.id), cut, adopted), states)
        }

    def adopt(self, names: Iterable[TableName]) -> None:
        """Let these tables join the cuts, unless they are stopped: they have caught up with the position."""
        joining = self.select(Joining)
        self._adopted |= {joining[name].id for name in names if name in joining}

    def without_stopped(self, tables: Mapping[TableName, LakeTable]) -> dict[TableName, LakeTable]:
        """Those of these tables that are not stopped by now."""
        stops = self._stopped.by_id()
        return {name: table for name, table in tables.items() if table.id not in stops}

    def all(self) -> dict[TableName, LakeTable]:
        """All tables with a copy, stopped ones included."""
        return {s.table.name: s for s in map(self.find, self._table_list.names()) if s}

    def find(self, name: TableName) -> LakeTable | None:
        """A table as it is now; None without a copy, or when it cannot be opened (`_lost` has the reason)."""
        writer = self._writers.get(name) or self._try_open(name)
        mark = layout.bookmark(self._lake, writer.snapshot) if writer else None
        if writer is None or mark is None:
            return None
        offset = writer.snapshot.transactions.get(self._lake.app_id)
        return LakeTable(writer, mark, BEFORE_LOG if offset is None else offset)

    def find_diverged(self, cut: Cut) -> dict[TableName, str]:
        """The tables that are neither the cut's version nor a successor of it, with reasons."""
        reasons = {
            name: table.describe_divergence(cut) for name, table in self.select(*ACTIVE).items() if table.is_in(cut)
        }
        return {name: reason for name, reason in reasons.items() if reason}

    def _find_lost(self, cut: Cut) -> dict[TableName, str]:
        """The cut's tables that are gone or cannot be opened, with reasons."""
        # neither released tables nor histories are listed
        listed = set(self._table_list.names())
        names = [n for n in map(TableName.parse, cut.versions) if n in listed and self.find(n) is None]
        return {name: self._lost[name][0] if name in self._lost else GONE for name in names}

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
        opened = layout.open_table(self._lake, name)
        if opened is None:
            return None
        log, table = opened
        layout.refuse_history(self._lake, name, log.snapshot)
        folder = self._indexes / layout.folder_name(name)
        writer = self._writers[name] = TableWriter(table, self._lake.table_storage(name), log, folder)
        return writer

    def stops(self) -> list[StoppedTable]:
        """The stops of present tables, and of listed ones that cannot be opened."""
        # mostly there are none: no look at each table, of which one without a copy is sought in the lake every time
        if not (stops := self._stopped.by_id()):
            return []
        present = [stops.get(table.id) for table in self.all().values()]
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
        ids = {name: cut.ids[str(name)] for name in reasons}
        stops = [
            StoppedTable(ids[name], name.schema, name.table, cut.position.lsn, reason, True)
            for name, reason in reasons.items()
            if ids[name] not in known
        ]
        if stops:
            self._stopped.add(stops)
        return stops

    def stop_put_back(self, tables: Mapping[TableName, LakeTable], lsn: Lsn) -> list[StoppedTable]:
        """Stop those of these tables that were put back to an older copy, which stopped when the next one replaced it.

        They get a new copy. Returns the new stops, each in the place of the older copy's.
        """
        stops = self._stopped.by_id()
        put_back = [
            StoppedTable(table.id, name.schema, name.table, lsn, PUT_BACK, True)
            for name, table in tables.items()
            if table.id in stops and stops[table.id].reason != PUT_BACK
        ]
        if put_back:
            self._stopped.add(put_back)
        return put_back

    def stop(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> list[StoppedTable]:
        """Stop these tables: they leave the cuts, and the others go on. Returns the new stops.

        `copy`: tables that `cdc follow` copies again.
        """
        going, last = self.select(*ACTIVE), self._cuts.last()
        lsn = last.position.lsn if last else Lsn(0)
        stops = [
            StoppedTable(
                going[name].id, name.schema, name.table, max(lsn, going[name].bookmark.lsn), reason, name in copy
            )
            for name, reason in reasons.items()
            if name in going
        ]
        # stopped earlier, and now marked for a new copy
        again = [replace(stop, copy=True) for stop in self.stops() if stop.name in copy and not stop.copy]
        stops += [stop for stop in again if stop.name in reasons]
        if stops:
            self._stopped.add(stops)
            reach("stop.stored")
        return stops


def _state(table: LakeTable | None, stop: StoppedTable | None, cut: Cut | None, adopted: Collection[str]) -> TableState:
    return state_of(
        stop.as_state() if stop else None,
        has_copy=table is not None,
        is_in_cut=table is not None and cut is not None and table.is_in(cut),
        is_adopted=table is not None and table.id in adopted,
    )
