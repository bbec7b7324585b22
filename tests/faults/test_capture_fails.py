"""Each verb that depends on the capture reports in one line when it will not go on by itself."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure, restart_running
from cdc.connect.capture.debezium_properties import OFFSETS_TOPIC
from cdc.core.errors import PreconditionError
from cdc.log.clients.topics import Admin
from tests.servers.latest.play import records
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, problems, verify
from tests.support.parts.pipelines import END_SENDERS, MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ORDERS, SCHEMA, Workload


def give_up(pipeline: Pipeline) -> None:
    """Have the connector, which must not try again, meet a failure."""
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        pipeline.run(END_SENDERS)
        until(lambda: failure(client, capture.connector) is not None, "the connector gives up")


def test_failed_connector_is_reported_and_restarted(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    pipeline.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
    bootstrap(pipeline, spark)
    settings = pipeline.settings
    give_up(pipeline)
    Workload(pipeline.connection, random.Random(2)).write(20)
    with pytest.raises(PreconditionError, match=f"connector {settings.connect.connector} failed: .*`cdc bootstrap`"):
        catch_up(pipeline, spark)
    assert any(f"connector {settings.connect.connector} failed: " in problem for problem in problems(pipeline))
    assert not bootstrap(pipeline, spark).has_changed
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_search_only_follow_waits_for_capture_repair(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    # nor does `cdc follow` start it
    pipeline.configure("connect:\n", 'connect:\n  restarts: 0\n  overrides: {errors.max.retries: "0"}\n')
    bootstrap(pipeline, spark)
    give_up(pipeline)
    Workload(pipeline.connection, random.Random(3)).write(20)
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.2)
    with following(pipeline, spark, "lake"):
        alone = Following(pipeline, spark, ["search"], until_caught_up=True)
        alone.start()
        alone.wait_for("capture: connector")
        bootstrap(pipeline, spark)
        alone.join()
    assert alone.failure is None
    # the look at the capture may say behind it that this runs again
    assert "search: caught up" in [line for line in alone.said if not line.startswith("capture: ")][-1]


def test_an_open_transaction_of_one_connector_does_not_hold_up_another(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    blocked = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    other = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(blocked, spark)
    bootstrap(other, spark)
    with transaction_left_open(blocked), ConnectClient(other.settings.connect.url) as client:
        # ends with an error for one that does not run again
        restart_running(client, other.settings.connect.connector)
        Workload(other.connection, random.Random(4)).write(20)
        catch_up(other, spark)


def test_a_capture_without_its_own_topic_of_offsets_goes_on_with_one(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    """That of an older version; or the topic is lost: Kafka Connect has a copy."""
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    name, workload = pipeline.settings.connect.connector, Workload(pipeline.connection, random.Random(5))
    with ConnectClient(pipeline.settings.connect.url) as client, Admin(pipeline.settings.log) as admin:
        config = client.config(name) or {}
        topic = config[OFFSETS_TOPIC]
        client.put(name, {key: value for key, value in config.items() if key != OFFSETS_TOPIC})
        admin.delete_wholly([topic])
        workload.write(20)
        catch_up(pipeline, spark)
        bootstrap(pipeline, spark)
        assert client.config(name) == config
        workload.write(20)
        catch_up(pipeline, spark)
        assert verify(pipeline, spark).is_equal
        assert records(pipeline.settings.log, topic)


@contextmanager
def transaction_left_open(pipeline: Pipeline) -> Iterator[None]:
    """Somebody has written where the connector keeps its offsets, and does not commit, as a task that is blocked."""
    with ConnectClient(pipeline.settings.connect.url) as client:
        topic = (client.config(pipeline.settings.connect.connector) or {})[OFFSETS_TOPIC]
    producer = Producer(
        {
            "bootstrap.servers": pipeline.settings.log.bootstrap,
            "transactional.id": f"blocked-{topic}",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, key=b"[]", value=b"{}")
    producer.flush()
    try:
        yield
    finally:
        producer.abort_transaction()
