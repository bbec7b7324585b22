"""A run that is worth a Spark job: tasks decode, fold and write the new rows, the driver looks up, marks and commits.

A task has one partition of one topic, and so all changes of its keys. What a task cannot know, because another one has
it, is left to the driver, which then reads that table itself: values that were not sent of a row whose key changed, and
a TRUNCATE.
"""

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.batch import Ranks, TableEffect, WrittenRows
from cdc.columns.changes import Changes, Integers, RefusedMessage
from cdc.columns.decode import Decoder
from cdc.columns.ends import Ends
from cdc.columns.fold import Net, fold, nothing
from cdc.core.table import Table, TableName
from sinks.lake import data_files, statistics
from sinks.lake.storage import Storage


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table's part of a run: what is wanted of its topic are changes of ENDs behind the offset `after`."""

    table: Table
    topic: str
    count: int
    after: int
    storage: Storage


@dataclass(frozen=True, slots=True)
class Part:
    """What one task made of one partition of a topic.

    `found`: different changes of the run, refused messages among them. `until`: the offset behind the last of them.
    `net`: what is left to do for the driver. `alone`: whether that is all; if not, the driver reads the table itself.
    """

    topic: str
    partition: int
    found: int
    until: int | None
    refused: Sequence[RefusedMessage]
    written: Sequence[WrittenRows]
    net: Net | None
    alone: bool


def parts(messages: DataFrame, run: Ends, wanted: Sequence[Wanted], placeholder: str, *, patient: bool) -> list[Part]:
    """Run the tasks over `messages` (`MESSAGES`, a partition of a topic each).

    A task ends early where nothing of the run comes any more, unless `patient`.
    """
    plan = _Plan(Ranks.of(run), {each.topic: each for each in wanted}, placeholder, patient)
    rows = messages.mapInArrow(partial(_parts, plan=plan), "part binary").collect()
    return [pickle.loads(row["part"]) for row in rows]  # noqa: S301 - our own executors wrote it


@dataclass(frozen=True, slots=True)
class _Plan:
    """What travels to the tasks."""

    ranks: Ranks
    wanted: Mapping[str, Wanted]
    placeholder: str
    patient: bool


def _parts(batches: Iterable[pa.RecordBatch], plan: _Plan) -> Iterator[pa.RecordBatch]:
    """On an executor: one row a partition of a topic."""
    by_partition: dict[tuple[str, int], _Reading] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        if place not in by_partition:
            by_partition[place] = _Reading(plan, plan.wanted[place[0]], place[1])
        if not by_partition[place].take(pa.Table.from_batches([batch])) and not plan.patient:
            break
    for reading in by_partition.values():
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(reading.part())], pa.binary())], names=["part"])


class _Reading:
    """One partition, as far as it has been read."""

    def __init__(self, plan: _Plan, wanted: Wanted, partition: int) -> None:
        self._plan = plan
        self._wanted = wanted
        self._partition = partition
        self._decoder = Decoder(wanted.table, plan.placeholder)
        self._changes: list[tuple[Changes, Integers]] = []
        self._refused: list[RefusedMessage] = []
        self._until: int | None = None

    def take(self, messages: pa.Table) -> bool:
        """Take in some messages; says whether any of them belong to the run."""
        decoded = self._decoder.decode(messages)
        places = self._plan.ranks.places(decoded.changes.tx_id)
        own = np.flatnonzero(places >= 0)
        refused = [each for each in decoded.refused if self._belongs(each)]
        offsets = messages["offset"].to_numpy()
        last = [*offsets[decoded.at[own]].tolist(), *(each.refusal.offset for each in refused)]
        if last:
            self._until = max(last) + 1
            self._changes.append((decoded.changes.take(own), places[own]))
            self._refused += refused
        return bool(last)

    def _belongs(self, refused: RefusedMessage) -> bool:
        """A message whose transaction cannot be read belongs where it lies: to this run, if anything here does."""
        return refused.tx_id is None or bool(self._plan.ranks.places(np.array([refused.tx_id]))[0] >= 0)

    def part(self) -> Part:
        """What is to be done for what was read."""
        refused = self._refused
        part = Part(self._wanted.topic, self._partition, len(refused), self._until, refused, (), None, alone=True)
        if not self._changes:
            return part
        changes = Changes.joined([each for each, _ in self._changes])
        ranks = np.concatenate([places for _, places in self._changes])
        part = replace(part, found=changes.distinct() + len(refused))
        late = ranks > self._wanted.after
        if refused or not late.any():
            return part
        return self._folded(part, changes.take(np.flatnonzero(late)), ranks[late])

    def _folded(self, part: Part, changes: Changes, ranks: Integers) -> Part:
        net = fold(changes, ranks)
        if net.truncated or net.borrows():
            return replace(part, alone=False)
        whole = net.only(~net.incomplete, gone=False)
        rest = net.only(net.incomplete, gone=True)
        return replace(part, written=[self._written(whole)] if len(whole.keys) else (), net=rest)

    def _written(self, whole: Net) -> WrittenRows:
        table = self._wanted.table
        bounded = statistics.indexed(table.column_names, table.key)
        file = data_files.write(self._wanted.storage, whole.rows, bounded, data_files.change_types(whole.existed))
        return WrittenRows(file.path, file.size, file.rows, file.stats, whole.keys)


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A `ChangeBatch` whose rows are in files already."""

    ends: Ends
    parts: Mapping[TableName, Sequence[Part]]

    @property
    def tables(self) -> Collection[TableName]:
        return self.parts.keys()

    def refused(self, table: TableName) -> Sequence[RefusedMessage]:
        return [each for part in self.parts[table] for each in part.refused]

    def effect(self, table: Table, after: int) -> TableEffect:
        """The table's effect; it was made for this `after`."""
        own = self.parts[table.name]
        nets = [part.net for part in own if part.net is not None]
        written = [each for part in own for each in part.written]
        return TableEffect(Net.joined(nets) if nets else nothing(table), written)
