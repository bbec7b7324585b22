"""A table whose schema changes stops what follows it, with the difference named; nothing wrong is applied."""

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from tests.pipelines import MakePipeline, Pipeline
from tests.verbs import Following, booted, caught_up, verified

TABLE = ("CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))", "INSERT INTO things VALUES (1, 1.25)")
pytestmark = pytest.mark.timeout(900)


def rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[int, str]]:
    lake = spark.read.format("delta").load(f"{pipeline.settings.delta[1].path}/public/things")
    return sorted((row["id"], str(row["total"])) for row in lake.collect())


def test_a_type_that_changes_stops_a_running_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=("public.things",))
    booted(pipeline, spark)
    running = Following(pipeline, spark, tuple(pipeline.settings.followers))
    running.start()
    pipeline.run("INSERT INTO things VALUES (2, 2.5)")
    running.wait_for("lake: 1 changes")
    pipeline.run("ALTER TABLE things ALTER total TYPE numeric(10, 4)")
    running.join()
    assert isinstance(running.failure, PreconditionError)
    assert r"column total was decimal(10, 2) and is decimal(10, 4)" in str(running.failure)
    for verb in (caught_up, verified, booted):
        with pytest.raises(PreconditionError, match=r"public\.things has changed since it was copied"):
            verb(pipeline, spark)


def test_a_row_of_more_columns_is_kept_and_not_applied(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=("public.things",))
    booted(pipeline, spark)
    pipeline.run(
        "ALTER TABLE things ADD COLUMN more text",
        "INSERT INTO things VALUES (2, 2.5, 'lost?')",
        "ALTER TABLE things DROP COLUMN more",
    )
    with pytest.raises(PreconditionError, match=r"1 messages cannot be read, .* more \[more\], less \[\]"):
        caught_up(pipeline, spark)
    assert rows(pipeline, spark) == [(1, "1.25")]
