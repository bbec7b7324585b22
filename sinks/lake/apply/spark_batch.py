"""A large run as a Spark job: tasks decode, fold and write new rows; the driver looks up keys and commits.

A task reads one partition of one topic, and so all changes of its keys. Some changes need more than one partition:
unsent values of a row whose key changed, and TRUNCATE. The driver reads the whole table then.
"""

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from cdc.columns.arrays import Integers
from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import Ranks, TableEffect, TablePart, WrittenRows
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import Changes, Messages, RefusedMessage
from cdc.columns.netting.ends import Ends
from cdc.columns.netting.net_changes import NetChanges, empty_net, fold
from cdc.columns.spark_tasks import run_in_tasks
from cdc.core.table import Table, TableName
from cdc.log.messages import Stretch
from cdc.sinks.lake.delta import data_files, statistics
from cdc.sinks.lake.storage.base import Storage


@dataclass(frozen=True, slots=True)
class MissingChanges:
    """The changes that one table needs from a run: `count` changes of its topic with END offsets above `after`.

    `needs_driver`: the driver has to see each of them, and no task reads them.
    """

    table: Table
    topic: str
    count: int
    after: int
    storage: Storage
    needs_driver: bool


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task's result for one partition of a topic.

    `count`: distinct changes of the run, refused ones included. `until`: the offset after the last of them. `net`: the
    rest for the driver. `is_complete`: False when the driver must read the whole table itself. `is_too_large`: the
    messages are more bytes than the plan lets a task have, and nothing else is known. `unpaired`: as
    `Changes.unpaired`; the two halves of an update are in any partitions, and their sum is 0.
    """

    topic: str
    partition: int
    count: int
    until: int | None
    written: Sequence[WrittenRows]
    net: NetChanges | None
    is_complete: bool
    is_too_large: bool = False
    unpaired: int = 0


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The input of all tasks.

    A task stops at the first message beyond the run, unless `is_patient`, and when it has more than `most_bytes`.
    """

    ranks: Ranks
    missing: Mapping[str, MissingChanges]
    placeholder: str
    most_bytes: int
    is_patient: bool


ReadMessages = Callable[[Stretch], Iterable[Messages]]
"""Reads the messages of a stretch; must be picklable."""


def run_tasks(
    spark: SparkSession, stretches: Sequence[Stretch], read: ReadMessages, plan: TaskPlan
) -> list[TaskResult]:
    """Run one task per stretch, each of another partition; returns one result per stretch.

    The results name data files that no commit names yet: delete the files of a discarded result.
    """
    if not stretches:
        return []
    # the partial is pickled into every task: plan and stretches must stay small
    task = partial(_run_task, stretches=stretches, read=read, plan=plan)
    rows = run_in_tasks(spark, len(stretches), task, "part binary").collect()
    return [pickle.loads(row["part"]) for row in rows]  # noqa: S301 - our own executors wrote it


def _run_task(
    numbers: Iterable[int], stretches: Sequence[Stretch], read: ReadMessages, plan: TaskPlan
) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        stretch = stretches[number]
        part = process_partition(read(stretch), stretch, plan)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(part)], pa.binary())], names=["part"])


def process_partition(messages: Iterable[Messages], stretch: Stretch, plan: TaskPlan) -> TaskResult:
    """Process one partition's messages, inside a task."""
    reading = _PartitionReader(plan, plan.missing[stretch.topic], stretch.partition)
    for batch in messages:
        # a partition is in commit order: after the run's last message comes none of it. If reading began before the
        # run, too few are found, and the driver retries with `is_patient`
        if len(batch) and not reading.add(batch) and not plan.is_patient:
            break
        if reading.bytes > plan.most_bytes:
            return TaskResult(stretch.topic, stretch.partition, 0, None, (), None, is_complete=False, is_too_large=True)
    return reading.result()


class _PartitionReader:
    """Collects one partition's changes of the run."""

    def __init__(self, plan: TaskPlan, missing: MissingChanges, partition: int) -> None:
        self._plan = plan
        self._missing = missing
        self._partition = partition
        self._decoder = Decoder(missing.table, plan.placeholder)
        self._changes: list[tuple[Changes, Integers]] = []
        self._refused: list[RefusedMessage] = []
        self._until: int | None = None
        self._has_foreign = False
        self.bytes = 0

    def add(self, messages: Messages) -> bool:
        """Add messages; returns whether the last one belongs to the run, so that more may follow."""
        decoded = self._decoder.decode(messages)
        places = self._plan.ranks.places(decoded.changes.tx_id)
        # a rank below 0 means a transaction outside the run
        own = np.flatnonzero(places >= 0)
        refused = [message for message in decoded.refused if self._is_of_run(message)]
        offsets = messages.offset
        last = [*offsets[decoded.at[own]].tolist(), *(message.refusal.offset for message in refused)]
        if last:
            self._until = max(last) + 1
            self.bytes += sum(map(len, messages.value))
            self._changes.append((decoded.changes.take(own), places[own]))
            self._refused += refused
        return bool(last) and max(last) == int(offsets[-1])

    def _is_of_run(self, refused: RefusedMessage) -> bool:
        if refused.tx_id is None:
            # not counted: the driver, which sees the whole table, knows where it belongs
            self._has_foreign = True
            return False
        return bool(self._plan.ranks.places(np.array([refused.tx_id]))[0] >= 0)

    def result(self) -> TaskResult:
        """Fold the collected changes into a result."""
        after = self._missing.after
        late = [message for message in self._refused if self._plan.ranks.is_behind(message.tx_id, after)]
        refused = len({(message.tx_id, message.number) for message in late})
        # unreadable messages, and those behind them, need all partitions
        alone = not (self._refused or self._has_foreign)
        part = TaskResult(self._missing.topic, self._partition, refused, self._until, (), None, is_complete=alone)
        if not self._changes:
            return part
        changes = Changes.concat([part for part, _ in self._changes])
        places = np.concatenate([part for _, part in self._changes])
        # a copy or an earlier batch may cover the beginning of the run
        behind = places > after
        changes, places = changes.take(np.flatnonzero(behind)), places[behind]
        unpaired, distinct = changes.unpaired() if self._missing.table.key else 0, changes.distinct()
        # the driver tells of conflicts
        alone = alone and not (distinct < len(changes) and changes.has_conflicts())
        part = replace(part, count=distinct + refused, unpaired=unpaired, is_complete=alone)
        return self._fold(part, changes, places) if alone and behind.any() else part

    def _fold(self, part: TaskResult, changes: Changes, ranks: Integers) -> TaskResult:
        # without a key, another partition may hold the insert of a row deleted here
        if not self._missing.table.key:
            return replace(part, is_complete=False)
        net = fold(changes, ranks)
        if net.truncated or net.borrows():
            return replace(part, is_complete=False)
        # complete rows go into a file here; the driver needs the index for incomplete and deleted ones
        whole = net.only(~net.incomplete, gone=False)
        rest = net.only(net.incomplete, gone=True)
        return replace(part, written=[self._write(whole)] if len(whole.keys) else (), net=rest)

    def _write(self, whole: NetChanges) -> WrittenRows:
        table = self._missing.table
        bounded = statistics.choose_columns(table.column_names, table.key)
        # a repeated task writes a new file; no commit names the first one
        file = data_files.write(self._missing.storage, whole.rows, bounded, data_files.change_types(whole.existed))
        return WrittenRows(file.path, file.size, file.rows, file.stats, whole.keys, whole.existed)


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A `ChangeBatch` whose rows are in files."""

    ends: Ends
    results: Mapping[TableName, Sequence[TaskResult]]

    @property
    def tables(self) -> Collection[TableName]:
        return self.results.keys()

    def take(self, table: Table, after: int, blocked: BlockedKeys) -> TablePart:
        """The table's part, computed for this `after` and without blocked keys.

        Nothing is refused: with refused messages, the driver reads the table.
        """
        return TablePart((), partial(self._effect, table))

    def _effect(self, table: Table) -> TableEffect:
        own = self.results[table.name]
        nets = [part.net for part in own if part.net is not None]
        written = [rows for part in own for rows in part.written]
        return TableEffect(NetChanges.concat(nets) if nets else empty_net(table), written)
