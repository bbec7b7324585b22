"""A run that is worth a Spark job: tasks decode, fold and write the new rows, the driver looks up, marks and commits.

A task has one partition of one topic, and so all changes of its keys. What a task cannot know, because another one has
it, is left to the driver, which then reads that table itself: values that were not sent of a row whose key changed, and
a TRUNCATE.
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
from cdc.columns.netting.batch import Ranks, TableEffect, WrittenRows
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import Changes, Messages, RefusedMessage
from cdc.columns.netting.net_changes import NetChanges, empty_net, fold
from cdc.columns.netting.transactions import Ends
from cdc.columns.spark_tasks import run_in_tasks
from cdc.core.table import Table, TableName
from cdc.log.messages import Stretch
from sinks.lake.delta import data_files, statistics
from sinks.lake.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table's part of a run: `count` changes are wanted of its topic, of ENDs behind the offset `after`.

    `held`: whether changes of some of its keys wait.
    """

    table: Table
    topic: str
    count: int
    after: int
    storage: Storage
    held: bool


@dataclass(frozen=True, slots=True)
class Part:
    """What one task made of one partition of a topic.

    `found`: different changes of the run, refused ones among them. `until`: the offset behind the last of them. `net`:
    what is left to do for the driver. `alone`: whether that is all; if not, the driver reads the table itself.
    """

    topic: str
    partition: int
    found: int
    until: int | None
    written: Sequence[WrittenRows]
    net: NetChanges | None
    alone: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What travels to the tasks.

    A task ends early where nothing of the run comes any more, unless it is `patient`.
    """

    ranks: Ranks
    wanted: Mapping[str, Wanted]
    placeholder: str
    patient: bool


Read = Callable[[Stretch], Iterable[Messages]]
"""Gives the messages of a stretch; it has to be one that can be sent to a task."""


def parts(spark: SparkSession, stretches: Sequence[Stretch], read: Read, plan: Plan) -> list[Part]:
    """Run a task a stretch, each of another partition; gives a part a stretch.

    Files that parts name are written, and in no commit yet: who throws a part away deletes them.
    """
    if not stretches:
        return []
    task = partial(_task, stretches=stretches, read=read, plan=plan)
    rows = run_in_tasks(spark, len(stretches), task, "part binary").collect()
    return [pickle.loads(row["part"]) for row in rows]  # noqa: S301 - our own executors wrote it


def _task(numbers: Iterable[int], stretches: Sequence[Stretch], read: Read, plan: Plan) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        stretch = stretches[number]
        part = part_of(read(stretch), stretch, plan)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(part)], pa.binary())], names=["part"])


def part_of(messages: Iterable[Messages], stretch: Stretch, plan: Plan) -> Part:
    """What a task makes of a partition's messages."""
    reading = _Reading(plan, plan.wanted[stretch.topic], stretch.partition)
    for found in messages:
        # a partition is in commit order: behind a message of no END of the run comes nothing of it. Or it is before the
        # run, if reading began early: then too few are found, and the driver asks again with patience
        if len(found) and not reading.take(found) and not plan.patient:
            break
    return reading.part()


class _Reading:
    """One partition, as far as it has been read."""

    def __init__(self, plan: Plan, wanted: Wanted, partition: int) -> None:
        self._plan = plan
        self._wanted = wanted
        self._partition = partition
        self._decoder = Decoder(wanted.table, plan.placeholder)
        self._changes: list[tuple[Changes, Integers]] = []
        self._refused: list[RefusedMessage] = []
        self._until: int | None = None
        self._foreign = False

    def take(self, messages: Messages) -> bool:
        """Take in some messages; says whether the last of them belongs to the run, so that more may come."""
        decoded = self._decoder.decode(messages)
        places = self._plan.ranks.places(decoded.changes.tx_id)
        own = np.flatnonzero(places >= 0)
        refused = [each for each in decoded.refused if self._is_of_run(each)]
        offsets = messages.offset
        last = [*offsets[decoded.at[own]].tolist(), *(each.refusal.offset for each in refused)]
        if last:
            self._until = max(last) + 1
            self._changes.append((decoded.changes.take(own), places[own]))
            self._refused += refused
        return bool(last) and max(last) == int(offsets[-1])

    def _is_of_run(self, refused: RefusedMessage) -> bool:
        if refused.tx_id is None:
            # nobody counts it, and whoever reads the table as a whole knows where it belongs
            self._foreign = True
            return False
        return bool(self._plan.ranks.places(np.array([refused.tx_id]))[0] >= 0)

    def part(self) -> Part:
        """What is to be done for what was read."""
        after = self._wanted.after
        late = [each for each in self._refused if self._plan.ranks.is_behind(each.tx_id, after)]
        found = len({(each.tx_id, each.total_order) for each in late})
        # what cannot be read, and what waits behind it, is for who has all partitions
        alone = not (self._refused or self._foreign or self._wanted.held)
        part = Part(self._wanted.topic, self._partition, found, self._until, (), None, alone=alone)
        if not self._changes:
            return part
        changes = Changes.concat([each for each, _ in self._changes])
        places = np.concatenate([each for _, each in self._changes])
        behind = places > after
        changes, places = changes.take(np.flatnonzero(behind)), places[behind]
        part = replace(part, found=changes.distinct() + found)
        return self._folded(part, changes, places) if alone and behind.any() else part

    def _folded(self, part: Part, changes: Changes, ranks: Integers) -> Part:
        # without a key, the row that goes here may have come by another partition
        if not self._wanted.table.key:
            return replace(part, alone=False)
        net = fold(changes, ranks)
        if net.truncated or net.borrows():
            return replace(part, alone=False)
        whole = net.only(~net.incomplete, gone=False)
        rest = net.only(net.incomplete, gone=True)
        return replace(part, written=[self._written(whole)] if len(whole.keys) else (), net=rest)

    def _written(self, whole: NetChanges) -> WrittenRows:
        table = self._wanted.table
        bounded = statistics.indexed(table.column_names, table.key)
        # a task that is run again writes another file; the first one's is in no commit
        file = data_files.write(self._wanted.storage, whole.rows, bounded, data_files.change_types(whole.existed))
        return WrittenRows(file.path, file.size, file.rows, file.stats, whole.keys, whole.existed)


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A `ChangeBatch` whose rows are in files already."""

    ends: Ends
    parts: Mapping[TableName, Sequence[Part]]

    @property
    def tables(self) -> Collection[TableName]:
        return self.parts.keys()

    def find_refused(self, table: Table, after: int, held: BlockedKeys) -> Sequence[RefusedMessage]:
        """None: where there are any, the driver reads the table."""
        return ()

    def effect(self, table: Table, after: int, held: BlockedKeys) -> TableEffect:
        """The table's effect; it was made for this `after`, and for no held keys."""
        own = self.parts[table.name]
        nets = [part.net for part in own if part.net is not None]
        written = [each for part in own for each in part.written]
        return TableEffect(NetChanges.concat(nets) if nets else empty_net(table), written)
