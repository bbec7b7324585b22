"""A large run whose transaction was sent again: each task sees one partition, and their findings are put together."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from cdc.columns.netting.changes import Messages
from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.errors import TopicLostError
from cdc.core.position import BEFORE_LOG, Lsn, Offsets
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.messages import Stretch
from cdc.log.run_reader import RunReader
from cdc.log.settings import LogSettings
from cdc.run.follow.lake.large_runs import LargeRunReader, count_ops
from cdc.sinks.lake.apply.spark_batch import MissingChanges, TaskPlan, TaskResult, process_partition
from tests.support.debezium import PLACEHOLDER
from tests.support.lake.places import in_folder
from tests.support.model import Change, CommitOrder, Delete, Insert, Truncate
from tests.unit.log.log_in_memory import LogInMemory, one_by_one, table

THINGS = table("things")
TOPIC = "p.public.things"
EMPTY = Truncate(THINGS.name, CommitOrder(1, 1))


class ReaderHere(LargeRunReader):
    """Its tasks run in this process, each on the messages of one partition."""

    def __init__(self, partitions: Sequence[Sequence[Change]]) -> None:
        self._parts = [one_by_one(THINGS, own) for own in partitions]
        log = LogInMemory({TOPIC: [each for own in self._parts for each in own]}, iter(lambda: {}, None))
        small = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER)
        settings = LogSettings(bootstrap="nowhere:1", prefix="p")
        super().__init__(cast("SparkSession", None), settings, PLACEHOLDER, small)

    def _run_job(self, plan: TaskPlan, start: Offsets) -> dict[str, list[TaskResult]]:
        return {TOPIC: [process(own, number, plan) for number, own in enumerate(self._parts)]}


def process(messages: Sequence[Messages], number: int, plan: TaskPlan) -> TaskResult:
    return process_partition(messages, Stretch(TOPIC, number, 0, len(messages)), plan)


def missing(folder: Path, count: int) -> MissingChanges:
    storage = in_folder(folder).table_storage(THINGS.name)
    storage.make_root()
    return MissingChanges(THINGS, TOPIC, count, BEFORE_LOG, storage, needs_driver=False)


def run_of(count: int) -> Ends:
    return to_columns([TransactionEnd(1, 1, Lsn(1), 0, {str(THINGS.name): count})])


def insert(number: int, key: int, former: int | None = None) -> Insert:
    moved = None if former is None else (former,)
    return Insert(THINGS.name, CommitOrder(1, number), (key,), {"id": key, "was": "x"}, moved)


def test_a_truncate_that_came_again_elsewhere_is_one(tmp_path: Path) -> None:
    """Its message has no key, so it may come into any partition."""
    reader = ReaderHere([[EMPTY, insert(2, 7)], [EMPTY, insert(3, 8)]])
    read = reader.read(run_of(3), [missing(tmp_path, 3)], {})
    net = read.batch.take(THINGS, BEFORE_LOG, {}).effect().net
    assert (net.truncated, sorted(net.rows["id"].to_pylist())) == (True, [7, 8])
    assert not [*tmp_path.rglob("*.parquet")]


def test_a_change_that_came_again_elsewhere_is_one(tmp_path: Path) -> None:
    """Its key has another partition once the topic has more of them."""
    reader = ReaderHere([[insert(1, 7), insert(2, 8)], [insert(1, 7)]])
    read = reader.read(run_of(2), [missing(tmp_path, 2)], {})
    assert sorted(read.batch.take(THINGS, BEFORE_LOG, {}).effect().net.rows["id"].to_pylist()) == [7, 8]
    assert not [*tmp_path.rglob("*.parquet")]


def test_halves_of_an_updated_key_are_found_in_any_partitions(tmp_path: Path) -> None:
    goes = Delete(THINGS.name, CommitOrder(1, 1), (7,), (8,))
    reader = ReaderHere([[goes], [insert(2, 8, former=7)]])
    assert count_ops(reader.read(run_of(2), [missing(tmp_path, 2)], {}), 2) == {"bulk": 2}


def test_half_of_an_updated_key_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    reader = ReaderHere([[insert(1, 1)], [insert(2, 8, former=7)]])
    with pytest.raises(TopicLostError, match="lacks 1 delete of updated keys"):
        reader.read(run_of(2), [missing(tmp_path, 2)], {})
    assert not [*tmp_path.rglob("*.parquet")]


def test_two_changes_under_one_number_are_told(tmp_path: Path) -> None:
    reader = ReaderHere([[insert(1, 1), insert(1, 3)], [insert(2, 2)]])
    with pytest.raises(TopicLostError, match="two changes under one number"):
        reader.read(run_of(2), [missing(tmp_path, 2)], {})
