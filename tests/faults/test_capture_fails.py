"""A capture that will not go on by itself is told, by the verbs that depend on it, in one line."""

import random

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.core.errors import HistoryLostError, PreconditionError
from connect.connector import failure
from connect.rest import ConnectClient
from tests.pipelines import MakePipeline, Pipeline
from tests.servers.workload import ORDERS, SCHEMA, Workload
from tests.verbs import booted, caught_up, problems, verified
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)


def slot_is(pipeline: Pipeline, condition: str) -> bool:
    found = pipeline.connection.execute(
        f"SELECT {condition} FROM pg_replication_slots WHERE slot_name = %s".encode(), (pipeline.settings.source.slot,)
    ).fetchone()
    return found == (True,)


def test_a_connector_that_gave_up_is_told_and_started_again(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    pipeline.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
    booted(pipeline, spark)
    settings = pipeline.settings
    with ConnectClient(settings.connect.url) as client:
        pipeline.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
        until(lambda: failure(client, settings.connect.connector) is not None, "the connector gives up")
    Workload(pipeline.connection, random.Random(2)).write(20)
    with pytest.raises(PreconditionError, match=f"connector {settings.connect.connector} failed: .*`cdc bootstrap`"):
        caught_up(pipeline, spark)
    assert any(f"connector {settings.connect.connector} failed: " in problem for problem in problems(pipeline))
    assert not booted(pipeline, spark).changed
    caught_up(pipeline, spark)
    assert verified(pipeline, spark).equal


def test_a_lost_slot_is_told(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    booted(pipeline, spark)
    lose(pipeline)
    lost = f"slot {pipeline.settings.source.slot} is lost"
    assert any(lost in problem for problem in problems(pipeline))
    with pytest.raises(HistoryLostError, match=lost):
        caught_up(pipeline, spark)
    with pytest.raises(HistoryLostError, match=lost):
        booted(pipeline, spark)


def lose(pipeline: Pipeline) -> None:
    """Have Postgres throw away what the slot needs, while nobody reads from it."""
    with ConnectClient(pipeline.settings.connect.url) as client:
        client.stop(pipeline.settings.connect.connector)
    until(lambda: slot_is(pipeline, "NOT active"), "nobody reads from the slot")
    pipeline.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        until(lambda: outgrown(pipeline), "the slot is lost")
    finally:
        pipeline.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def outgrown(pipeline: Pipeline) -> bool:
    filler = sql.SQL("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000))")
    pipeline.connection.execute(filler)
    pipeline.run("SELECT pg_switch_wal()", "CHECKPOINT")
    return slot_is(pipeline, "wal_status = 'lost'")
