"""Somebody adds partitions to the topics of a running pipeline."""

import random

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.errors import HistoryLostError
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, transaction_topic
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, recapture_all, verify
from tests.support.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1200)


def add_partitions(pipeline: Pipeline, topic: str, count: int) -> None:
    """The topic has `count` partitions, and the capture writes to all of them."""
    settings = pipeline.settings
    client = AdminClient({"bootstrap.servers": settings.log.bootstrap})
    for added in client.create_partitions([NewPartitions(topic, count)]).values():
        added.result()
    with ConnectClient(settings.connect.url) as connect:
        # a producer hears of them within five minutes by itself
        connect.restart(settings.connect.connector, whole=True)


def is_written(pipeline: Pipeline, topic: str, partition: int) -> bool:
    with Reader(pipeline.settings.log) as reader:
        return reader.end([topic])[topic].get(partition, 0) > 0


def test_added_partitions_of_change_topics_are_followed(
    make_pipeline: MakePipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS), lake_only=True)
    # one is enough for most, and no reason to have no more later
    pipeline.configure("\n  partitions: 3", "\n  partitions: 1")
    bootstrap(pipeline, spark)
    topics = [change_topic(pipeline.settings.log.prefix, TableName.parse(name)) for name in (ORDERS, ITEMS)]
    work = Workload(pipeline.connection, random.Random(8))
    with following(pipeline, spark) as running:
        work.write(20)
        running.wait_for("lake: ")
        for topic in topics:
            add_partitions(pipeline, topic, 6)

        def is_spread() -> bool:
            work.write(20)
            return all(is_written(pipeline, topic, partition) for topic in topics for partition in range(6))

        until(is_spread, "the new partitions are written to", every=0.5)
        assert verify(pipeline, spark).is_equal
    assert not any("trying again" in line for line in running.said), running.said
    work.write(50)
    capsys.readouterr()
    bootstrap(pipeline, spark, ORDERS)
    told = f"more partitions than log.partitions, followed as they are: {', '.join(topics)}"
    assert capsys.readouterr().err.count(told) == 1
    check_equal_after(pipeline, spark, work, 50)
    recapture_all(pipeline, spark)
    check_equal_after(pipeline, spark, work, 5)


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
