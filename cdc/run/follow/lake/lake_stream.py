"""The stream that keeps the lake in sync: cuts transactions into runs by their ENDs, reads and applies each run."""

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.netting.ends import Ends, concat_ends
from cdc.columns.netting.runs import drop_applied
from cdc.core.errors import HistoryLostError, PreconditionError, TopicLostError
from cdc.core.fail_points import reach
from cdc.core.position import BEFORE_LOG, Offsets, Position, without_topic
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE, Followed, TableState
from cdc.core.text.lines import WarningLine
from cdc.core.text.plural import format_count
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic
from cdc.log.run_reader import ReadRun, RunTooLargeError
from cdc.log.spark_options import stream_options
from cdc.log.transaction_topic import check_position
from cdc.run.follow.lake.lake_stream_parts import (
    MESSAGES_A_CHANGE,
    LakeStreamConfig,
    LakeStreamHooks,
    Readers,
    put_right,
)
from cdc.run.follow.lake.large_runs import ReadLargeRun, count_ops, find_missing
from cdc.run.follow.lake.run_cuts import RunCuts
from cdc.run.follow.lake.schema_changes import SchemaChanges
from cdc.run.follow.lake.table_joiner import StreamSteps, TableJoiner
from cdc.run.follow.step_size import MOST_RUN_BYTES, StepBounds
from cdc.run.follow.streams import BatchProgress
from cdc.run.health.heartbeat_chain import CheckedBeats
from cdc.run.tables import problems
from cdc.run.tables.resume_check import require_position
from cdc.sinks.lake.apply.apply import AppliedBatch
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.pace import Pace


class LakeStream:
    """Applies the transaction topic to the Delta follower; one call per micro-batch.

    Three steps overlap; with few ENDs, the query's thread does the second, too. `_await_reading` is the first border,
    `_await_commit` the second. The position in the lake decides which ENDs are new, never Spark's checkpoint.

        query    ENDs of 1 and 2 │ ENDs of 3 and 4     │
        runs                     │ read 1 │ read 2     │ read 3 │ ...
        commits                           │ commit 1   │ commit 2
    """

    def __init__(
        self,
        follower: DeltaFollower,
        readers: Readers,
        schema: SchemaChanges,
        config: LakeStreamConfig,
        hooks: LakeStreamHooks,
    ) -> None:
        self._follower = follower
        self._readers = readers
        self._schema = schema
        self._config = config
        self._hooks = hooks
        self._pace = Pace(config.delta.pace_limits)
        bounds = StepBounds.of_changes(config.delta.batch_changes)
        self._cuts = RunCuts(follower, bounds, schema.table)
        self._joiner = TableJoiner(follower, readers.small, config.log, bounds, hooks.resyncs)
        self._steps = StreamSteps(self._await_commit, self._report, self._apply_schema_changes, schema.table)
        # The query's thread owns `_last_read` and `_pending`; the reading thread owns the rest. `_await_reading` hands
        # over between them. The commit thread sees only its arguments; `_await_commit` hears its answer.
        self._position = self._check_start()
        # after a kill between two tables' commits, one is ahead of the cut: the first run must reach that far for all
        highest = follower.highest_offset()
        self._furthest = highest if highest > self._position.end_offset else BEFORE_LOG
        self._last_read = self._position.end_offset
        readers.ends.begin(self._position)
        self._pending: list[Ends] = []
        self._read_thread = ThreadPoolExecutor(1, "runs")
        self._commit_thread = ThreadPoolExecutor(1, "commits")
        self._reading: Future[Ends | None] | None = None
        self._committing: Future[bool] | None = None
        self._is_done = False
        hooks.stops.connect(self.stop)
        # also the known ones: the last try may have ended with a failure after it stopped a table in the same batch
        hooks.reports.report([*follower.check_tables(), *follower.tables.stops()])

    def source(self, spark: SparkSession) -> DataFrame:
        """The messages of the transaction topic behind the position, as a clock only: the driver reads them itself."""
        options = stream_options(
            self._config.log, self._config.topic, self._position.topic_offset + 1, self._config.most_messages
        )
        return spark.readStream.format("kafka").options(**options).load()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take what is new; neither argument, which are Spark's, is used."""
        self._hooks.wait(self._pace.remaining())
        self._pace.begin()
        # as many offsets as the micro-batch has: no later call may come for a remainder
        for new_ends in self._readers.ends.read(self._config.most_messages):
            if len(new_ends):
                self._pending.append(new_ends)
                self._last_read = int(new_ends.offset[-1])
            if self._is_done:
                break
            if sum(int(ends.changes.sum()) for ends in self._pending) > self._cuts.step.most:
                self._take(more=True)
        self._take(more=False)

    def _take(self, *, more: bool) -> None:
        """Apply the ENDs that are pending; the last of them wait on if the call has `more`, or another one comes."""
        # not earlier: while the last runs were read, `_position` belonged to those
        self._await_reading()
        # up to the furthest table, ENDs are only gathered: the run that reaches it is cut from all of them
        if self._is_done or not self._pending or self._last_read < self._furthest:
            self._await_commit()
            return
        ends, self._pending = concat_ends(self._pending), []
        to_apply = drop_applied(ends, self._position)
        if again := len(ends) - len(to_apply):
            # exactly-once delivery has none: whoever looks for a fault wants to know
            self._hooks.say(f"{format_count(again, 'transaction')} came again, and counted once")
        if len(to_apply) and (more or self._has_many(to_apply)):
            # there will be another call, and that hears of a failure of this thread
            self._reading = self._read_thread.submit(self._apply, to_apply, int(to_apply.offset[-1]))
        else:
            self._apply(to_apply)
            self._await_commit()

    def _has_many(self, ends: Ends) -> bool:
        """With few ENDs, reading the next ones meanwhile is not worth a thread."""
        few = self._config.few_messages
        return len(ends) * MESSAGES_A_CHANGE > few and self._readers.ends.waiting() > few

    def settle(self) -> None:
        """Wait until no run is being read or committed. Raises their failure."""
        try:
            self._await_reading()
        finally:
            # also after a failed reading: a commit still under way would run beside the next stream
            self._await_commit()

    def _await_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None and (left := reading.result()) is not None:
            self._pending.insert(0, left)

    def _await_commit(self) -> None:
        committing, self._committing = self._committing, None
        if committing is not None and not committing.result():
            self._is_done = True

    def _apply(self, ends: Ends, left: int = -1) -> Ends | None:
        """Read each run while the one before it is committed: Spark's tasks leave the driver's core free.

        Returns the run that ends at the offset `left`, unless it is the only one: it may be cut short, and waits for
        its remaining ENDs.
        """
        self._position = self._join_tables()
        self._repair()
        is_first = True
        while len(ends) and not self._is_done:
            run = self._cuts.cut(ends, self._furthest)
            if not is_first and run.offset[-1] == left:
                return run
            try:
                self._apply_run(run)
            except RunTooLargeError:
                self._cuts.shrink(run)
            else:
                is_first, ends = False, ends.slice(len(run), len(ends))
        return None

    def _apply_run(self, run: Ends) -> None:
        """Read a run, and let it be committed. Raises RunTooLargeError before a row of it is applied."""
        beats = self._begin_run(run)
        start = beats.next_offsets
        # before the furthest table is reached, a cut would show it with changes that the others lack
        if beats.are_routine and (run.offset[-1] < self._furthest or self._may_rest()):
            # read again after a restart: the lake's position is the one of its last cut
            self._position = replace(run.position(self._position, start), beat=beats.digest)
            self._readers.chain.keep(beats)
            self._pace.note_rest()
            return
        began = time.monotonic()
        tables, changes, read = self._read_run(run, start)
        stages = {"read": time.monotonic() - began}
        reach("lake.read")
        # commits happen in the order of the runs; and only now is it known whether `reached` wants more
        self._await_commit()
        if self._is_done:
            return
        if isinstance(read, ReadLargeRun) and self._has_blocked(read):
            # the last commit left keys held, unknown to the tasks of this run: read again. The files they wrote
            # belong to no table, and a sweep deletes them
            read = self._read_tables(run, tables, changes, start)
        self._readers.chain.keep(beats)
        self._cuts.grow()
        position = replace(run.position(self._position, read.next_offsets), beat=beats.digest)
        progress = BatchProgress(
            position,
            changes,
            run.commit_times(str(table.name) for table in tables),
            stages,
            count_ops(read, changes),
        )
        self._committing = self._commit_thread.submit(self._commit, read, progress)
        self._position = position
        if run.offset[-1] >= self._furthest:
            # from here on no table is ahead of the position
            self._furthest = BEFORE_LOG

    def _begin_run(self, run: Ends) -> CheckedBeats:
        """Apply the run's schema changes, and check that it lacks no heartbeat."""
        while True:
            try:
                start = self._apply_schema_changes(run, self._position.next_offsets)
                # before anything of the run is applied: a log without some commits is followed only up to the gap
                return self._readers.chain.check(run, self._position, start)
            except TopicLostError as lost:
                # the reader goes on with all of its topics, whichever is asked for
                self._stop_table_of(lost, self._position.next_offsets)

    def _has_blocked(self, read: ReadLargeRun) -> bool:
        return bool(self._follower.letters.count_blocked().keys() & set(read.batch.large.tables))

    def _may_rest(self) -> bool:
        """Whether a cut for heartbeats alone would say nothing that anybody needs now."""
        self._await_commit()
        is_asked = self._hooks.repairs.is_pending()
        return self._pace.may_rest() and self._hooks.may_rest() and not is_asked and not self._follower.awaits_cut()

    def _join_tables(self) -> Position:
        """Join the tables that were copied meanwhile; one whose topic has lost what it needs is stopped."""
        while True:
            try:
                joined = self._joiner.join(self._position, self._steps)
                reach("join.ended")
                return joined
            except TopicLostError as lost:
                self._stop_table_of(lost, self._position.next_offsets, ACTIVE)

    def _repair(self) -> None:
        """Put the rows right that a repair has read from the source up to here; the cut of the next run has them."""
        due = [*self._hooks.repairs.find_due(self._position.lsn)] if self._furthest == BEFORE_LOG else []
        if due:
            # with the tables at the position
            self._await_commit()
        for id, request in due:
            try:
                left = put_right(self._follower, request)
            except (PreconditionError, HistoryLostError) as refusal:
                # of this table alone: all others are followed on
                self._hooks.repairs.note_done(id, 0, refusal)
            else:
                self._hooks.repairs.note_done(id, left)

    def _commit(self, read: ReadRun | ReadLargeRun, progress: BatchProgress) -> bool:
        began = time.monotonic()
        applied = self._follower.apply(read.batch, progress.position)
        progress = replace(progress, stages={**progress.stages, "apply": time.monotonic() - began})
        self._cuts.step.note(progress.changes, progress.seconds)
        # the cost of this commit decides how long the next micro-batch waits for more changes
        self._pace.note_commit(applied.cost, len(read.batch.ends))
        self._report(applied)
        self._hooks.repairs.note_cut(progress.position)
        return self._hooks.reached(progress)

    def _report(self, applied: AppliedBatch) -> None:
        for line in applied.notes:
            self._hooks.say(line)
        for name, (keys, letters) in applied.blocked.items():
            self._hooks.say(WarningLine(problems.describe_blocked_keys(name, keys, letters)))
        self._hooks.reports.report(applied.stopped)

    def _apply_schema_changes(self, run: Ends, start: Offsets) -> Offsets:
        """Apply the schema changes of a run, before its row changes, which may rely on them."""
        if not len(run.touching(self._schema.table)):
            return start
        # earlier runs are applied with the tables as they were
        self._await_commit()
        applied = self._schema.apply_run(run, start)
        self._hooks.reports.report(applied.stopped)
        # not for a run that a joining table reads once more: the chain is beyond it
        if applied.lacks_beats and run.last.lsn > self._position.lsn:
            self._readers.chain.unlink()
        return applied.next_offsets

    def stop(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> None:
        """Stop tables that have changed in the source; callable from any thread. `copy`: whatever their policy."""
        self._hooks.reports.report(self._schema.stop(reasons, copy))

    def _read_run(self, run: Ends, start: Offsets) -> tuple[Sequence[Table], int, ReadRun | ReadLargeRun]:
        """Read a run; a table whose topic has lost counted changes is stopped, and the others are read without it."""
        while True:
            # not the tables that came since `join`: their topics would be read past changes that nobody applies
            tables = [table.table for table in self._follower.tables.select(Followed).values()]
            changes = sum(run.counts(str(table.name) for table in tables).values())
            try:
                return tables, changes, self._read_tables(run, tables, changes, start)
            except TopicLostError as lost:
                start = self._stop_table_of(lost, start)

    def _stop_table_of(
        self, lost: TopicLostError, start: Offsets, states: Sequence[type[TableState]] = (Followed,)
    ) -> Offsets:
        """Stop the table of a lost topic, to be copied again; returns the offsets without that topic's.

        Of a table in no such state, the reader has no more than an old place: it may have a new copy already.
        """
        self._readers.small.forget(lost.topic)
        if not any(self._topic_of(name) == lost.topic for name in self._follower.tables.all()):
            raise lost
        # earlier runs are applied with the table as it was
        self._await_commit()
        names = [name for name in self._follower.tables.select(*states) if self._topic_of(name) == lost.topic]
        self._hooks.reports.report(self._follower.tables.stop(dict.fromkeys(names, lost.what), copy=names))
        self._position = replace(self._position, next_offsets=without_topic(self._position.next_offsets, lost.topic))
        return without_topic(start, lost.topic)

    def _topic_of(self, table: TableName) -> str:
        return change_topic(self._config.log.prefix, table)

    def _read_tables(self, run: Ends, tables: Sequence[Table], changes: int, start: Offsets) -> ReadRun | ReadLargeRun:
        # a Spark job takes 0.6 s even for one message; the driver reads a small run in milliseconds
        if changes <= self._config.delta.small_run_changes:
            applied = {name: s.last_applied(run) for name, s in self._follower.tables.select(*ACTIVE).items()}
            # few changes may be many bytes
            with suppress(RunTooLargeError):
                return self._readers.small.read(run, tables, start, applied, MOST_RUN_BYTES)
        topics = {table.name: self._topic_of(table.name) for table in tables}
        most, missing = self._cuts.most_bytes(run), find_missing(self._follower, run, topics)
        return self._readers.large.read(run, missing, start, most)

    def _check_start(self) -> Position:
        """The lake's position, once it is known that the log still goes on from there."""
        position = require_position(self._follower)
        self._follower.cuts.check_capture()
        with Reader(self._config.log) as reader:
            check_position(reader, self._config.topic, position)
        return position
