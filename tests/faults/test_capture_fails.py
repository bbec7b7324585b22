"""Each verb that depends on the capture reports in one line when it will not go on by itself."""

import random

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure
from cdc.core.errors import HistoryLostError, PreconditionError
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, problems, verify
from tests.support.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ORDERS, SCHEMA, Workload


def give_up(pipeline: Pipeline) -> None:
    """Have the connector, which must not try again, meet a failure."""
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        pipeline.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
        until(lambda: failure(client, capture.connector) is not None, "the connector gives up")


def slot_is(pipeline: Pipeline, condition: str) -> bool:
    found = pipeline.connection.execute(
        f"SELECT {condition} FROM pg_replication_slots WHERE slot_name = %s".encode(), (pipeline.settings.source.slot,)
    ).fetchone()
    return found == (True,)


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
    pipeline.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
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
    assert "search: caught up" in alone.said[-1]


def test_lost_slot_is_reported(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    lose(pipeline)
    lost = f"slot {pipeline.settings.source.slot} is lost"
    assert any(lost in problem for problem in problems(pipeline))
    with pytest.raises(HistoryLostError, match=lost):
        catch_up(pipeline, spark)
    with pytest.raises(HistoryLostError, match=lost):
        bootstrap(pipeline, spark)


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
