"""History that is lost while somebody follows ends the follow, or stops one table; all of it is repaired."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.access import connection as source
from cdc.core.errors import HistoryLostError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic
from tests.faults.losses.losses import (
    DELETE_ONE,
    DELETE_OTHER,
    INSERT_ONE,
    INSERT_OTHER,
    SCHEMA,
    TABLES,
    check_recaptured,
    check_told,
    follow_changes,
    move_slot,
    time_out_topic,
)
from tests.support.cdc_inprocess import (
    catch_up,
    following,
    lend,
    problems,
    started,
    verify,
)
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that the lake follows, with changes applied; each test ends with all of it repaired."""
    yield from lend(left, lambda: follow_changes(make_shared_pipeline(*SCHEMA, tables=TABLES, lake_only=True), spark))


def test_slot_moved_during_follow_ends_it(pipeline: Pipeline, spark: SparkSession) -> None:
    with started(pipeline, spark, *pipeline.settings.followers) as running:
        running.wait_for("following")
        with holding_restart_lsn(pipeline):
            # what is held is at or below the log's end from here on
            pipeline.run(INSERT_OTHER)
            running.wait_for("lake: ")
            move_slot(pipeline)
        running.join()
    assert isinstance(running.failure, HistoryLostError)
    assert "no commit of the log" in str(running.failure)
    check_told(pipeline, spark, "no commit of the log")
    # a monitor that asks for the status later sees it, too
    assert any("follower lake has stopped, and nobody follows it: " in problem for problem in problems(pipeline))
    check_recaptured(pipeline, spark)


@contextmanager
def holding_restart_lsn(pipeline: Pipeline) -> Iterator[None]:
    """An open transaction keeps the slot's restart_lsn; else Debezium refuses to start when a moved slot moves that.

    Whoever makes a slot on this server waits meanwhile.
    """
    with source.open_connection(pipeline.settings.source) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_logical_emit_message(true, 'held', '')")
        yield


def test_slot_moved_beyond_the_offset_is_told(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark, *pipeline.settings.followers) as running:
        running.wait_for("following")
        # a checkpoint logs the running transactions, behind which a slot may restart
        move_slot(pipeline, "CHECKPOINT", INSERT_OTHER)
        running.wait_for("no commit of the log is at that LSN: somebody moved the slot")
        said = next(line for line in running.said if "somebody moved the slot" in line)
    assert " failed: " in said
    assert "`cdc recapture`" in said
    assert any("somebody moved the slot" in problem for problem in problems(pipeline))
    check_recaptured(pipeline, spark)


@pytest.mark.parametrize("how", ["timed out", further("deleted", "deleted")])
def test_lost_change_topic_stops_only_its_table(
    pipeline: Pipeline, spark: SparkSession, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # all changes that the log has are there when it is followed
    monkeypatch.setattr("cdc.log.run_reader.PATIENCE_SECONDS", 3.0)
    settings = pipeline.settings
    pipeline.run(DELETE_ONE, "UPDATE others SET name = 'y'")
    topic = change_topic(settings.log.prefix, TableName.parse("public.things"))
    time_out_topic(pipeline, topic)
    if how == "deleted":
        with Admin(settings.log) as admin:
            admin.delete([topic])
            until(lambda: not admin.topics([topic]), "the topic is gone")
    with following(pipeline, spark) as running:
        running.wait_for("public.things is followed no further")
        running.wait_for("public.things is copied again")
        pipeline.run(INSERT_ONE, DELETE_OTHER)
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "nothing is stopped")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
