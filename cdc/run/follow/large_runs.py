"""Reads and folds a large run by one Spark job for all tables; what a task cannot do alone, the driver does."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from cdc.columns.netting.batch import ChangeBatch, DecodedBatch, Ranks, TableEffect
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import RefusedMessage
from cdc.columns.netting.transactions import Ends
from cdc.core.position import Offsets
from cdc.core.table import Table, TableName
from cdc.log.clients.reader import Reader
from cdc.log.messages import MessageSource, stretches
from cdc.log.runs import PATIENCE_SECONDS, RunReader, lost
from cdc.log.settings import LogSettings
from sinks.lake.apply.spark_batch import LargeBatch, MissingChanges, TaskPlan, TaskResult, run_tasks

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """A `ChangeBatch` of tables whose rows are in files already, and of others that the driver has read."""

    large: LargeBatch
    small: DecodedBatch

    @property
    def ends(self) -> Ends:
        return self.large.ends

    @property
    def tables(self) -> Collection[TableName]:
        return [*self.large.tables, *self.small.tables]

    def find_refused(self, table: Table, after: int, held: BlockedKeys) -> Sequence[RefusedMessage]:
        return self._batch(table.name).find_refused(table, after, held)

    def effect(self, table: Table, after: int, held: BlockedKeys) -> TableEffect:
        return self._batch(table.name).effect(table, after, held)

    def _batch(self, table: TableName) -> ChangeBatch:
        return self.small if table in self.small.tables else self.large


@dataclass(frozen=True, slots=True)
class ReadLargeRun:
    """A run's effect, and where reading goes on behind it."""

    batch: MixedBatch
    next_offsets: Offsets


class LargeRunReader:
    """Reads large runs for one follower; `small` reads what is left to the driver."""

    def __init__(self, spark: SparkSession, log: LogSettings, placeholder: str, small: RunReader) -> None:
        self._spark = spark
        self._log = log
        self._placeholder = placeholder
        self._small = small

    def read(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets) -> ReadLargeRun:
        """Read what the run has of these tables; the rows that need no other are written to their folders.

        Reading begins at the offsets of `start`, at a topic's beginning where it has none. Raises as `RunReader.read`
        does.
        """
        found = self._complete(run, wanted, start)
        alone = {
            each.table.name: found[each.topic] for each in wanted if all(part.is_complete for part in found[each.topic])
        }
        others = [each for each in wanted if each.table.name not in alone]
        # what tasks wrote of a table that they could not do alone is a part only: the driver does all of it again
        for each in others:
            _delete_parts(each, found[each.topic])
        applied = {each.table.name: each.after for each in others}
        small = self._small.read(run, [each.table for each in others], start, applied)
        # a partition in which the run has nothing stays where it was
        moved = {
            each.topic: {**start.get(each.topic, {}), **_next_offsets(found[each.topic])}
            for each in wanted
            if each.table.name in alone
        }
        return ReadLargeRun(MixedBatch(LargeBatch(run, alone), small.batch), {**small.next_offsets, **moved})

    def _complete(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets) -> dict[str, list[TaskResult]]:
        """What the tasks made of every topic, once all of the run's changes are there."""
        found: dict[str, list[TaskResult]] = {}
        # the first look leaves a partition where nothing of the run comes; what that missed, or was not to be seen yet
        # (commit markers reach partitions one by one), the next one finds, which reads to the end
        deadline, patient = time.monotonic() + PATIENCE_SECONDS, False
        while missing := [each for each in wanted if each.topic not in found]:
            is_last = patient and time.monotonic() > deadline
            by_topic = self._parts(run, missing, start, patient=patient)
            for each in missing:
                own = by_topic.get(each.topic, [])
                counted = sum(part.count for part in own)
                if counted >= each.count:
                    found[each.topic] = own
                    continue
                _delete_parts(each, own)
                if is_last:
                    raise lost(each.topic, counted, each.count)
            patient = True
            if len(found) < len(wanted):
                time.sleep(POLL_SECONDS)
        return found

    def _parts(
        self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, *, patient: bool
    ) -> dict[str, list[TaskResult]]:
        topics = [each.topic for each in wanted]
        with Reader(self._log) as reader:
            first, end = reader.beginning(topics), reader.end(topics)
        # what retention has taken is not asked for: it is missed in the count, and told with its topic
        plan = TaskPlan(Ranks.of(run), {each.topic: each for each in wanted}, self._placeholder, patient)
        by_topic: dict[str, list[TaskResult]] = {}
        for part in run_tasks(self._spark, stretches(start, first, end), MessageSource(self._log), plan):
            by_topic.setdefault(part.topic, []).append(part)
        return by_topic


def _next_offsets(found: Sequence[TaskResult]) -> Mapping[int, int]:
    return {part.partition: part.until for part in found if part.until is not None}


def _delete_parts(wanted: MissingChanges, found: Sequence[TaskResult]) -> None:
    wanted.storage.delete(each.path for part in found for each in part.written)
