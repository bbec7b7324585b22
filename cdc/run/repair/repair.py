"""`cdc repair`: the rows of keys that differ are read again from the source, and put right in every follower.

They go the ordinary way: the lake's stream commits them, and whoever is fed by the lake takes them from its changes.
So the keys are the cost, not the table, but for the comparison that finds them. Of a view, the keys are computed anew.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from psycopg import Connection

from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.config.settings import VIEWS
from cdc.core.errors import CdcError, ConfigurationError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.repair.finding import join_keys, too_many
from cdc.run.repair.history_rows import repair_histories
from cdc.run.repair.key_finder import NO_LSN, KeyFinder
from cdc.run.repair.places import CutsAround, KeyVerdict, Places
from cdc.run.repair.report import RepairReport, TableRepair
from cdc.run.repair.source_rows import RowsAtLsn, check_keys, read_at_lsn, select_keys
from cdc.run.repair.streams import Say, Streams, check_unpaused, list_needed, run_streams
from cdc.run.repair.view_rows import ViewFollower, ViewRows, find_view_keys
from cdc.run.repair_requests import TABLE, VIEW, RepairRequest
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.resume_check import require_position
from cdc.run.tables.schema_check import find_different
from cdc.run.tables.selection import list_followed
from cdc.run.trace.source_row import read_source_row
from cdc.run.trouble_log import trouble_log
from cdc.run.verify.catch_up import ReadPosition
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.verify import open_readers
from cdc.run.views.view_definitions import define_present_views
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_readable

ROUNDS: Final = 12
"""How often keys are read and compared: one that was equal once, in a follower, is known."""
MOST_KEYS: Final = 10_000
"""Keys of one table that are repaired, unless the caller says how many."""


@dataclass(frozen=True, slots=True)
class RepairTask:
    """What is to be repaired: in these followers (the lake, those behind it, VIEWS); in these `tables`, or all.

    `keys`: of the only table, each as the texts of its columns; found by a comparison if there are none. `most`: keys
    of a table. `patience`: seconds to wait for the streams.
    """

    names: Sequence[str]
    tables: Sequence[TableName] = ()
    keys: Sequence[Sequence[str]] = ()
    most: int = MOST_KEYS
    patience: float = 120.0


def repair(pipeline: Pipeline, task: RepairTask, say: Say) -> RepairReport:
    """Repair what differs, and compare exactly these keys again.

    Raises CdcError for what concerns all tables; what one of them meets is in the report.
    """
    began = time.monotonic()
    _check(pipeline, task)
    require_position(pipeline.lake_follower)
    with ExitStack() as held:
        connection = held.enter_context(pipeline.open_source())
        asked = _Asked.read(pipeline, task, connection)
        needed = list_needed(pipeline, task.names)
        if others := [name for name in pipeline.settings.stream_names if name not in needed]:
            say(f"not waited for: {', '.join(others)}; what the lake gets by this they take as any change")
        check_unpaused(pipeline, needed)
        held.enter_context(trouble_log(pipeline.state))
        pipeline.start_spark()
        streams = held.enter_context(run_streams(pipeline, needed, connection, say, task.patience))
        work = _Repair(pipeline, task, connection, streams, say, failed={**asked.unfit})
        work.repair_tables(asked)
        work.repair_histories()
        work.repair_views()
    return RepairReport(work.lsn, work.done, work.failed, time.monotonic() - began)


def _check(pipeline: Pipeline, task: RepairTask) -> None:
    if task.keys and len(task.tables) != 1:
        raise ConfigurationError("--key needs the one table that has it", "name it by --table")
    if task.keys and pipeline.settings.is_view(task.tables[0]):
        raise ConfigurationError(f"{task.tables[0]} is a view: its keys are found by a comparison", "leave --key out")
    if len(task.keys) > task.most:
        raise too_many(task.tables[0], "are named", task.most)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The tables asked for that the source and the lake have in the same way, and why others are `unfit`; the keys."""

    tables: Sequence[Table]
    unfit: Mapping[TableName, CdcError]
    keys: Mapping[Table, pa.Table]

    @classmethod
    def read(cls, pipeline: Pipeline, task: RepairTask, connection: Connection[Any]) -> "_Asked":
        followed = list_followed(pipeline)
        for name in task.tables:
            if name not in followed and not pipeline.settings.is_view(name):
                raise ConfigurationError(f"{name} is followed by nobody", "correct --table; see `cdc status`")
        names = [name for name in followed if not task.tables or name in task.tables]
        now = examine_tables(connection, pipeline, names)
        stops = {s.name: PreconditionError(str(s), s.remedy) for s in pipeline.lake_follower.tables.stops()}
        refused = {name: merge_refusals(reasons) for name, reasons in now.refusals.items()}
        unfit = {**find_different(pipeline, now.tables), **refused, **stops}
        tables = [table for table in now.fit if table.name not in unfit]
        keys = {table: _read_keys(pipeline, task, connection, table) for table in tables if task.keys}
        return cls(tables, {name: error for name, error in unfit.items() if name in names}, keys)


def _read_keys(pipeline: Pipeline, task: RepairTask, connection: Connection[Any], table: Table) -> pa.Table:
    if refusal := check_keys(table):
        raise refusal
    secret = pipeline.settings.source.mask_key
    rows = [read_source_row(connection, table, [*key], secret).key for key in task.keys]
    return join_keys([select_keys(row, table) for row in rows], table)


@dataclass(slots=True)
class _Repair:
    pipeline: Pipeline
    task: RepairTask
    connection: Connection[Any]
    streams: Streams
    say: Say
    lsn: Lsn = NO_LSN
    done: dict[TableName, TableRepair] = field(default_factory=dict)
    failed: dict[TableName, CdcError] = field(default_factory=dict)

    def repair_tables(self, asked: "_Asked") -> None:
        """Find the keys of tables that differ, and put them right until they are equal."""
        if not asked.tables:
            return
        keys = asked.keys or self._find_keys(asked.tables)
        self.done |= {table.name: TableRepair(0) for table in asked.tables if table.name not in self.failed}
        left = {table: found for table, found in keys.items() if len(found)}
        if left:
            self._put_right(left)

    def _find_keys(self, tables: Sequence[Table]) -> Mapping[Table, pa.Table]:
        finder = KeyFinder(self.pipeline, self.connection, self.streams, self._places().names, self.task.most)
        found = finder.find(tables)
        self.lsn, self.failed = finder.lsn, self.failed | finder.failed
        return found

    def _open_readers(self) -> Mapping[str, FollowerReader]:
        return open_readers(self.pipeline, [name for name in self.task.names if name != VIEWS])

    def _places(self) -> Places:
        return Places(self.pipeline, [name for name in self.task.names if name != VIEWS])

    def _put_right(self, keys: Mapping[Table, pa.Table]) -> None:
        """Repair keys, and compare them, until all are equal, or change whenever they are compared."""
        places, left = self._places(), dict(keys)
        places.note_ends([table.name for table in keys if places.select(table)])
        verdicts = dict[TableName, Mapping[str, KeyVerdict]]()
        for number in range(ROUNDS + 1):
            rows = read_at_lsn(self.pipeline, self.connection, keys)
            self.lsn = rows.lsn
            keys = self._leave_out(keys, rows)
            if not keys:
                return
            self._wait_for_all(partial(self.streams.wait_for_lsn, rows.lsn))
            around = CutsAround.find(self.pipeline, rows.cut, rows.lsn)
            if number:
                for table, asked in keys.items():
                    found = places.compare(table, asked, rows.rows[table.name], around)
                    verdicts[table.name] = _join_rounds(verdicts.get(table.name, {}), found)
                left = {table: asked.filter(_that_differ(verdicts[table.name])) for table, asked in keys.items()}
            self.done |= {t.name: _summarize(len(asked), number, verdicts.get(t.name, {})) for t, asked in keys.items()}
            left = {table: asked for table, asked in left.items() if len(asked) and table.name not in self.failed}
            if number == ROUNDS or (number and not self._is_open(keys)):
                return
            if left:
                self._hand_over(left, rows, around, anew=self._is_lake_wrong(verdicts))

    def _leave_out(self, keys: Mapping[Table, pa.Table], rows: RowsAtLsn) -> Mapping[Table, pa.Table]:
        """The keys without those of tables that cannot be read, which fail alone."""
        self.failed |= rows.refused
        for name in rows.refused:
            self.done.pop(name, None)
        return {table: asked for table, asked in keys.items() if table.name not in rows.refused}

    def _is_open(self, keys: Mapping[Table, pa.Table]) -> bool:
        """Whether another round would tell more."""
        return any(self.done[table.name].verdict != "equal" for table in keys if table.name not in self.failed)

    def _is_lake_wrong(self, verdicts: Mapping[TableName, Mapping[str, KeyVerdict]]) -> bool:
        """Whether the lake differs that was put right: by its index of keys, perhaps."""
        lake = self.pipeline.lake_name
        return any(each[lake].differs.any() for each in verdicts.values() if lake in each)

    def _hand_over(self, left: Mapping[Table, pa.Table], rows: RowsAtLsn, around: CutsAround, *, anew: bool) -> None:
        told = ", ".join(f"{len(found):,} of {table.name}" for table, found in left.items())
        self.say(f"repairing keys: {told}")
        requests = [_make_request(table, found, rows, around.before, anew=anew) for table, found in left.items()]
        answers = self.streams.put_right(requests, TABLE)
        for table, answer in zip(left, answers, strict=True):
            if answer.refusal:
                self.failed[table.name] = answer.refusal
        self._wait_for_offset(max(answer.offset for answer in answers))

    def _wait_for_all(self, wait: Callable[[str, ReadPosition], None]) -> None:
        """Wait for the lake and all that is to be repaired behind it, and see then what they have."""
        for name, reader in open_readers(self.pipeline, self.streams.names).items():
            wait(name, reader.position)
        # views over a repaired table have its rows, too, before this ends
        if VIEWS in self.streams.names:
            wait(VIEWS, self.pipeline.views.position)
        self.pipeline.look_again()

    def repair_histories(self) -> None:
        """Let histories go on with the rows of their tables where they differ from these."""
        names = [name for name in self.pipeline.settings.histories if not self.task.tables or name in self.task.tables]
        if self.task.keys or not names or self.pipeline.lake_name not in self.task.names:
            return
        found = repair_histories(self.pipeline, self.streams, names, self.say, self._wait_for_offset)
        self.done, self.failed = self.done | found.done, self.failed | found.failed

    def _wait_for_offset(self, offset: int) -> None:
        self._wait_for_all(partial(self.streams.wait_for_offset, offset))

    def repair_views(self) -> None:
        """Find the keys of views that differ, and have them computed anew until they are equal."""
        if self.task.keys or not self.pipeline.settings.views:
            return
        readers = self._open_readers()
        if VIEWS not in self.task.names and not any(map(self.pipeline.settings.holds_views, readers)):
            return
        self.streams.wait_for_lsn(self.lsn, VIEWS, self.pipeline.views.position)
        # each after those that it reads
        ordered, _ = sort_readable(define_present_views(self.pipeline))
        for view in ordered:
            if not self.task.tables or view.name in self.task.tables:
                try:
                    self.done[view.name] = self._repair_view(view)
                except PreconditionError as refusal:
                    self.failed[view.name] = refusal

    def _repair_view(self, view: ViewDefinition) -> TableRepair:
        rows = ViewRows.open(self.pipeline, view)
        readers = self._open_readers()
        followers = [ViewFollower(self.pipeline, name, readers[name]) for name in self._names_of(view)]
        keys = find_view_keys(rows, followers, self.task.most)
        places, left, verdicts = self._places(), keys, dict[str, KeyVerdict]()
        done = TableRepair(len(keys), is_view=True)
        if len(keys):
            places.note_ends([view.name])
        for number in range(1, ROUNDS + 1) if len(keys) else ():
            if len(left):
                self._recompute(view, left)
            found = {name: places.compare_follower(name, rows.table, keys) for name in self._names_of(view)}
            found[VIEWS] = ViewRows.open(self.pipeline, view).compare(keys)
            verdicts = _join_rounds(verdicts, found)
            left, done = keys.filter(_that_differ(verdicts)), _summarize(len(keys), number, verdicts, is_view=True)
            if done.verdict == "equal":
                break
        return done

    def _recompute(self, view: ViewDefinition, keys: pa.Table) -> None:
        self.say(f"repairing keys: {len(keys):,} of view {view.name}")
        [answer] = self.streams.put_right([RepairRequest(view.name, keys.slice(0, 0), keys)], VIEW)
        if answer.refusal:
            raise answer.refusal
        self._wait_for_offset(answer.offset)

    def _names_of(self, view: ViewDefinition) -> list[str]:
        """The followers that hold a view."""
        return [name for name in self.task.names if name != VIEWS and self.pipeline.settings.holds(name, view.name)]


def _make_request(table: Table, keys: pa.Table, rows: RowsAtLsn, cut: Cut, *, anew: bool) -> RepairRequest:
    """The rows of these keys, of all that were read, and the keys without one."""
    found, name = rows.rows[table.name], str(table.name)
    wanted = found.filter(pa.array(are_among(row_bits(found, table), row_bits(keys, table))))
    gone = keys.filter(pa.array(~are_among(row_bits(keys, table), row_bits(found, table))))
    return RepairRequest(table.name, wanted, gone, cut.ids[name], cut.versions[name], rows.lsn, anew)


def _join_rounds(before: Mapping[str, KeyVerdict], found: Mapping[str, KeyVerdict]) -> dict[str, KeyVerdict]:
    return {name: verdict.after(before.get(name)) for name, verdict in found.items()}


def _that_differ(verdicts: Mapping[str, KeyVerdict]) -> pa.Array:
    return pa.array(np.logical_or.reduce([each.differs for each in verdicts.values()]))


def _summarize(keys: int, rounds: int, verdicts: Mapping[str, KeyVerdict], *, is_view: bool = False) -> TableRepair:
    left = {name: int(each.differs.sum()) for name, each in verdicts.items() if each.differs.any()}
    moved = max([int(each.unknown.sum()) for each in verdicts.values()], default=0)
    return TableRepair(keys, rounds, left, moved, is_view)
