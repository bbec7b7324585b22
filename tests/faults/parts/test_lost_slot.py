"""A slot that the source has thrown away: every verb names it."""

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.errors import HistoryLostError
from tests.support.cdc_inprocess import bootstrap, catch_up, problems
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ORDERS, SCHEMA


def slot_is(pipeline: Pipeline, condition: str) -> bool:
    found = pipeline.connection.execute(
        f"SELECT {condition} FROM pg_replication_slots WHERE slot_name = %s".encode(), (pipeline.settings.source.slot,)
    ).fetchone()
    return found == (True,)


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
