"""Somebody adds partitions to the topics of a running pipeline."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cdc
from cdc.core.errors import HistoryLostError
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, transaction_topic
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, recapture_all, verify
from tests.support.parts.kafka_partitions import add_partitions
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1200)


def is_written(pipeline: Pipeline, topic: str, partition: int) -> bool:
    with Reader(pipeline.settings.log) as reader:
        return reader.end([topic])[topic].get(partition, 0) > 0


def start_job(pipeline: Pipeline, spark: SparkSession, folder: Path) -> StreamingQuery:
    """A program's own job, which has all changes of the orders in the table `orders`."""
    changes = cdc.changes(spark, ORDERS, config=pipeline.config).writeStream.format("memory").queryName("orders")
    return changes.option("checkpointLocation", str(folder)).start()


def check_job(job: StreamingQuery, pipeline: Pipeline, spark: SparkSession, topic: str) -> None:
    """The job has each change once, also those of the partitions that came while it ran."""
    written = count_changes(pipeline, topic)
    until(lambda: spark.table("orders").count() >= written, "the job has every change", every=0.5)
    job.stop()
    assert (spark.table("orders").distinct().count(), job.exception()) == (written, None)


def count_changes(pipeline: Pipeline, topic: str) -> int:
    """The messages of a topic but its tombstones."""
    with Reader(pipeline.settings.log) as reader:
        start, end = reader.beginning([topic])[topic], reader.end([topic])[topic]
        found = [record for at in start for record in reader.read(topic, at, start[at], end[at]) if record.value]
    return len(found)


def test_added_partitions_of_change_topics_are_followed(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """By the lake, and by a program's own job over the changes of a table."""
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS), lake_only=True)
    # one is enough for most, and no reason to have no more later
    pipeline.configure("\n  partitions: 3", "\n  partitions: 1")
    bootstrap(pipeline, spark)
    for name, value in pipeline.environ.items():
        monkeypatch.setenv(name, value)
    job = start_job(pipeline, spark, tmp_path)
    topics = [change_topic(pipeline.settings.log.prefix, TableName.parse(name)) for name in (ORDERS, ITEMS)]
    work = Workload(pipeline.connection, random.Random(8))
    with following(pipeline, spark) as running:
        work.write(20)
        running.wait_for("lake: ")
        for topic in topics:
            add_partitions(pipeline, topic, 6)

        write_everywhere(pipeline, work, topics)
        assert verify(pipeline, spark).is_equal
    check_job(job, pipeline, spark, topics[0])
    assert not any("trying again" in line for line in running.said), running.said
    work.write(50)
    capsys.readouterr()
    bootstrap(pipeline, spark, ORDERS)
    told = f"more partitions than log.partitions, followed as they are: {', '.join(topics)}"
    assert capsys.readouterr().err.count(told) == 1
    check_equal_after(pipeline, spark, work, 50)
    recapture_all(pipeline, spark)
    check_equal_after(pipeline, spark, work, 5)


def write_everywhere(pipeline: Pipeline, work: Workload, topics: list[str]) -> None:
    """Write until each partition of the topics is written to."""

    def is_spread() -> bool:
        work.write(20)
        return all(is_written(pipeline, topic, partition) for topic in topics for partition in range(6))

    until(is_spread, "the new partitions are written to", every=0.5)


def check_equal_after(pipeline: Pipeline, spark: SparkSession, work: Workload, transactions: int) -> None:
    work.write(transactions)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_transaction_topic_must_keep_one_partition(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    topic = transaction_topic(pipeline.settings.log.prefix)
    running, work = Following(pipeline, spark, ("lake",)), Workload(pipeline.connection, random.Random(9))
    running.start()
    try:
        work.write(5)
        running.wait_for("lake: ")
        add_partitions(pipeline, topic, 2)
        until(lambda: running.failure is not None, "it ends")
    finally:
        running.end()
    # by the partitions themselves, or by the heartbeats whose ENDs are in the second one
    assert isinstance(running.failure, HistoryLostError)
    assert "`cdc recapture` starts the capture anew" in str(running.failure)
    with pytest.raises(HistoryLostError, match=f"topic {topic} has 2 partitions: .* → `cdc recapture`"):
        bootstrap(pipeline, spark)
    recapture_all(pipeline, spark)
    check_equal_after(pipeline, spark, work, 5)
