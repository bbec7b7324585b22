"""Reads and nets a large run by one Spark job for all tables; the driver reads tables that need older rows."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from cdc.columns.netting.batch import ChangeBatch, DecodedBatch, Ranks, TablePart
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import Op, order_changes
from cdc.columns.netting.ends import Ends
from cdc.core.fail_points import reach
from cdc.core.position import Offsets
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE
from cdc.core.waiting import Deadline
from cdc.log.clients.reader import Reader
from cdc.log.messages import MessageSource, stretches
from cdc.log.run_reader import (
    PATIENCE_SECONDS,
    ReadRun,
    RunReader,
    RunTooLargeError,
    half_updates_error,
    lost_changes_error,
)
from cdc.log.settings import LogSettings
from cdc.sinks.lake.apply.spark_batch import LargeBatch, MissingChanges, TaskPlan, TaskResult, run_tasks
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.follower import DeltaFollower

BULK: Final = "bulk"
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """A `ChangeBatch` of two kinds of tables: some have their rows in files already, the driver has read the others."""

    large: LargeBatch
    small: DecodedBatch

    @property
    def ends(self) -> Ends:
        return self.large.ends

    @property
    def tables(self) -> Collection[TableName]:
        return [*self.large.tables, *self.small.tables]

    def take(self, table: Table, after: int, blocked: BlockedKeys) -> TablePart:
        batch: ChangeBatch = self.small if table.name in self.small.tables else self.large
        return batch.take(table, after, blocked)


@dataclass(frozen=True, slots=True)
class ReadLargeRun:
    """A run's batch, and the offsets where reading goes on."""

    batch: MixedBatch
    next_offsets: Offsets


class LargeRunReader:
    """Reads large runs for one follower; `small` reads the tables that are left to the driver."""

    def __init__(self, spark: SparkSession, log: LogSettings, placeholder: str, small: RunReader) -> None:
        self._spark = spark
        self._log = log
        self._placeholder = placeholder
        self._small = small

    def read(
        self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, most_bytes: int = sys.maxsize
    ) -> ReadLargeRun:
        """Read the run's changes of these tables. Tasks write rows that need no earlier row to the tables' folders.

        A topic is read from its offsets in `start`, or from its beginning without any. Raises as `RunReader.read` does:
        `most_bytes` is for this process, and for each task.
        """
        shared = [w for w in wanted if not w.needs_driver]
        # its own reads of other topics would fetch these beside, for nobody
        for table in shared:
            self._small.forget(table.topic)
        # before the job, which would read the other tables in vain if these are too large
        driven = self._read_here(run, [w for w in wanted if w.needs_driver], start, most_bytes)
        parts_of = self._read_parts(run, shared, start, most_bytes)
        reach("large.read")
        alone = {w.table.name: parts_of[w.topic] for w in shared if all(part.is_complete for part in parts_of[w.topic])}
        others = [w for w in shared if w.table.name not in alone]
        # tasks may have written some files of these tables: incomplete, since the driver reads all of it again
        for table in others:
            _delete_parts(table, parts_of[table.topic])
        try:
            rest = self._read_here(run, others, driven.next_offsets, most_bytes)
        except RunTooLargeError:
            for table in shared:
                _delete_parts(table, alone.get(table.table.name, ()))
            raise
        # a partition without changes of the run keeps its offset
        moved = {
            w.topic: {**start.get(w.topic, {}), **_next_offsets(parts_of[w.topic])}
            for w in shared
            if w.table.name in alone
        }
        small = DecodedBatch(run, {**driven.batch.changes, **rest.batch.changes})
        return ReadLargeRun(MixedBatch(LargeBatch(run, alone), small), {**rest.next_offsets, **moved})

    def _read_here(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, most_bytes: int) -> ReadRun:
        # a table may be ahead of the position after a kill: its changes up to there are skipped
        applied = {w.table.name: w.after for w in wanted}
        return self._small.read(run, [w.table for w in wanted], start, applied, most_bytes)

    def _read_parts(
        self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, most_bytes: int
    ) -> dict[str, list[TaskResult]]:
        """The tasks' results by topic, once every counted change of the run was read.

        Raises TopicLostError, and RunTooLargeError.
        """
        complete: dict[str, list[TaskResult]] = {}
        # The first job leaves a partition early when no change of the run comes. Later jobs read to the end: they find
        # changes behind that, and those not visible yet (commit markers reach partitions one by one).
        deadline, patient = Deadline(PATIENCE_SECONDS), False
        while missing := [w for w in wanted if w.topic not in complete]:
            # read before the job: changes that become visible before the deadline are then found by this last job
            is_last = patient and deadline.is_past
            plan = TaskPlan(Ranks.of(run), {w.topic: w for w in missing}, self._placeholder, most_bytes, patient)
            by_topic = self._run_job(plan, start)
            if any(part.is_too_large for own in by_topic.values() for part in own):
                for table in wanted:
                    _delete_parts(table, [*complete.get(table.topic, ()), *by_topic.get(table.topic, ())])
                raise RunTooLargeError
            for table in missing:
                own = by_topic.get(table.topic, [])
                if (count := sum(part.count for part in own)) >= table.count:
                    # a TRUNCATE that came again may be in two partitions: the driver sees that it is one
                    complete[table.topic] = own if count == table.count else _for_driver(own)
                    continue
                _delete_parts(table, own)
                if is_last:
                    raise lost_changes_error(table.topic, count, table.count)
            patient = True
            if len(complete) < len(wanted):
                time.sleep(POLL_SECONDS)
        _check_pairs(wanted, complete)
        return complete

    def _run_job(self, plan: TaskPlan, start: Offsets) -> dict[str, list[TaskResult]]:
        topics = [*plan.missing]
        # a consumer of its own: the small reader's stands at other offsets
        with Reader(self._log) as reader:
            first, end = reader.beginning(topics), reader.end(topics)
        # offsets that retention has deleted are not read: their changes are then missing in the count
        by_topic: dict[str, list[TaskResult]] = {}
        for part in run_tasks(self._spark, stretches(start, first, end), MessageSource(self._log), plan):
            by_topic.setdefault(part.topic, []).append(part)
        return by_topic


def find_missing(lake: DeltaFollower, run: Ends, topics: Mapping[TableName, str]) -> list[MissingChanges]:
    """The changes of a run that the lake's tables of these topics lack; tables without any are left out."""
    active = {name: table for name, table in lake.tables.select(*ACTIVE).items() if name in topics}
    after = {name: table.last_applied(run) for name, table in active.items()}
    counts = {name: run.where(run.offset > after[name]).counts([str(name)]).get(str(name)) for name in active}
    return [
        MissingChanges(s.table, topics[name], count, after[name], s.writer.storage, needs_driver(lake, s))
        for name, s in active.items()
        if (count := counts[name])
    ]


def needs_driver(lake: DeltaFollower, table: LakeTable) -> bool:
    """Whether the driver has to see each change: to hold back blocked keys, to keep every version, or to find the rows
    of a table without a key, which may be in any partition."""
    has_key = bool(table.table.key)
    return not has_key or bool(lake.letters.blocked_keys(table)) or lake.histories.has(table.table.name)


def count_ops(read: ReadRun | ReadLargeRun, changes: int) -> Mapping[str, int]:
    """The changes of a run by operation; nobody counts those that a Spark job has folded by theirs."""
    if isinstance(read, ReadLargeRun):
        return {BULK: changes}
    # each change once, as the ENDs count them
    ops = [table.changes.op[order_changes(table.changes, table.ranks)] for table in read.batch.changes.values()]
    counts = np.bincount(np.concatenate(ops), minlength=max(Op) + 1) if ops else ()
    return {op.name.lower(): int(counts[op]) for op in Op if len(counts) and counts[op]}


def _check_pairs(wanted: Sequence[MissingChanges], read: Mapping[str, Sequence[TaskResult]]) -> None:
    """Raise TopicLostError when updates of keys lack a half. Where the driver reads the changes itself, it checks."""
    for table in wanted:
        own = read[table.topic]
        unpaired = sum(part.unpaired for part in own)
        if unpaired and all(part.is_complete for part in own):
            for each in wanted:
                _delete_parts(each, read[each.topic])
            raise half_updates_error(table.topic, unpaired)


def _for_driver(read: Sequence[TaskResult]) -> list[TaskResult]:
    return [replace(part, is_complete=False) for part in read]


def _next_offsets(read: Sequence[TaskResult]) -> Mapping[int, int]:
    return {part.partition: part.until for part in read if part.until is not None}


def _delete_parts(table: MissingChanges, read: Sequence[TaskResult]) -> None:
    table.storage.delete(file.path for part in read for file in part.written)
