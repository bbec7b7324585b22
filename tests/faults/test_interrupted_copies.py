"""A resync that fails between two tables: the tables copied before join, and are not copied again."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import UnreachableError
from cdc.core.table import Table, TableName
from cdc.sinks.lake.table.load import CopiedFiles
from cdc.snapshots.copy import copy_in_process
from tests.support.cdc_inprocess import bootstrap, following, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

IDLE_SESSIONS_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'cdc' AND state = 'idle'"
)
FIRST, SECOND = TableName("public", "first"), TableName("public", "second")


def stopped_tables(pipeline: Pipeline) -> set[TableName]:
    return {stop.name for stop in pipeline.opened().lake_follower.tables.stops()}


def test_tables_committed_by_a_failed_try_are_not_copied_again(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(
        *(f"CREATE TABLE {each.table} (id int PRIMARY KEY, a int)" for each in (FIRST, SECOND)),
        "INSERT INTO first VALUES (1, 1)",
        "INSERT INTO second VALUES (1, 1)",
        tables=(str(FIRST), str(SECOND)),
        lake_only=True,
    )
    bootstrap(pipeline, spark)
    copies: list[TableName] = []

    def copy_or_break(source: Any, table: Table, *others: Any) -> CopiedFiles:
        copies.append(table.name)
        if copies == [FIRST, SECOND]:
            raise UnreachableError("the source went away", "is it running?")
        if copies == [FIRST, SECOND, SECOND]:
            # as a server does with sessions that say nothing for as long as a copy takes
            pipeline.run(IDLE_SESSIONS_END)
        return copy_in_process(source, table, *others)

    monkeypatch.setattr("cdc.run.copy.snapshot_copy.copy_in_process", copy_or_break)
    with following(pipeline, spark) as running:
        pipeline.run("BEGIN; ALTER TABLE first ADD e int DEFAULT 7; ALTER TABLE second ADD e int DEFAULT 7; COMMIT")
        running.wait_for("not copied again yet: the source went away")
        until(lambda: stopped_tables(pipeline) == {SECOND}, "the first takes part while the second rests")
        # a second copy of it, beneath who follows it by now, would lose this
        pipeline.run("UPDATE first SET a = 2")
        running.wait_for("public.second is copied again: 1 row copied")
        until(lambda: not stopped_tables(pipeline), "both take part again")
        pipeline.run("UPDATE first SET a = a + 1", "UPDATE second SET a = a + 1")
        assert verify(pipeline, spark).is_equal
    assert copies == [FIRST, SECOND, SECOND]
