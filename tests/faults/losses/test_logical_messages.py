"""Messages that applications write beside the rows are no lost history: the slot may stand at one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from cdc.columns.netting.ends import parse_confirmed_lsn
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import halt
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.position import Lsn, parse_lsn
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, debezium_heartbeat_topic, transaction_topic
from cdc.log.transaction_topic import log_bounds, read_ends_between
from cdc.run.health.confirmed import ConfirmedLsns
from tests.faults.losses.losses import DELETE_ONE, SCHEMA, TABLES, slot_is_free
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    lend_bootstrapped,
    problems,
    verify,
)
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

MESSAGES = "SELECT pg_logical_emit_message(false, 'app', 'hello') FROM generate_series(1, 100)"


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that the lake follows, with a heartbeat a second."""

    def make() -> Pipeline:
        made = make_shared_pipeline(*SCHEMA, tables=TABLES, lake_only=True)
        made.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
        return made

    yield from lend_bootstrapped(left, spark, make)


def test_logical_messages_are_no_gap(pipeline: Pipeline, spark: SparkSession) -> None:
    place = wait_for_confirmed_message(pipeline)
    position = pipeline.opened().lake_follower.position()
    assert position is not None
    log, beats = pipeline.settings.log, heartbeat_table(pipeline.settings.source).name
    confirmed = ConfirmedLsns(log, position.log_start, change_topic(log.prefix, beats))
    commits = log_commits(pipeline)
    assert all(confirmed.include(lsn) for lsn in (place, *commits[-3:]))
    assert not any(confirmed.include(Lsn(lsn + 1)) for lsn in (place, *commits[-3:]))
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_captured_logical_messages_are_no_gap(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.configure("connect:\n", 'connect:\n  overrides: {message.prefix.include.list: "app"}\n')
    bootstrap(pipeline, spark)
    with ConnectClient(pipeline.settings.connect.url) as client:
        for _ in range(2):
            stand_at_a_message(pipeline)
            restart(pipeline, client)
    pipeline.run(DELETE_ONE)
    catch_up(pipeline, spark)
    assert not bootstrap(pipeline, spark).has_changed
    assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


def restart(pipeline: Pipeline, client: ConnectClient) -> None:
    halt(client, pipeline.settings.connect.connector)
    client.resume(pipeline.settings.connect.connector)
    until(lambda: not slot_is_free(pipeline), "the connector reads again")


def wait_for_confirmed_message(pipeline: Pipeline) -> Lsn:
    """The LSN of a message outside of transactions that Debezium confirms with a heartbeat, once there is one."""
    log, topic, found = pipeline.settings.log, debezium_heartbeat_topic(pipeline.settings.log.prefix), set[Lsn]()

    def is_there() -> bool:
        pipeline.run(MESSAGES)
        with Reader(log) as reader:
            beats = reader.read(topic, 0, 0, reader.end([topic])[topic].get(0, 0))
            confirmed = {lsn for beat in beats if (lsn := parse_confirmed_lsn(beat.value or b"{}"))}
        found.update(confirmed - set(log_commits(pipeline)))
        return bool(found)

    until(is_there, "a message is confirmed")
    return min(found)


def log_commits(pipeline: Pipeline) -> list[Lsn]:
    topic = transaction_topic(pipeline.settings.log.prefix)
    with Reader(pipeline.settings.log) as reader:
        return [Lsn(lsn) for lsn in read_ends_between(reader, topic, 0, log_bounds(reader, topic)[1]).lsn.tolist()]


def stand_at_a_message(pipeline: Pipeline) -> None:
    """Return when the slot is confirmed up to a message: the log has no commit there."""
    query = b"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"

    def stands() -> bool:
        pipeline.run(MESSAGES)
        row = pipeline.connection.execute(query, (pipeline.settings.source.slot,)).fetchone()
        assert row is not None
        return parse_lsn(row[0]) not in log_commits(pipeline)

    until(stands, "a message is confirmed")
