"""A table whose schema changes stops what follows it, with the difference named; copied again, it goes on as it is."""

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from tests.pipelines import MakePipeline, Pipeline
from tests.verbs import booted, caught_up, following, problems, verified

TABLE = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "INSERT INTO things VALUES (1, 1.25)",
    "CREATE TABLE others (id int PRIMARY KEY)",
)
TABLES = ("public.things", "public.others")
pytestmark = pytest.mark.timeout(900)


def rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[int, str]]:
    lake = spark.read.format("delta").load(f"{pipeline.settings.delta[1].path}/public/things")
    return sorted((row["id"], str(row["total"])) for row in lake.collect())


def goes_on(pipeline: Pipeline, spark: SparkSession) -> None:
    """Copied again, the table is what it is in the source, and so it stays."""
    assert set(map(str, booted(pipeline, spark, "public.things").copied)) == {"public.things"}
    pipeline.run("INSERT INTO others VALUES (7)", "UPDATE things SET id = id + 1000 WHERE id = 1")
    caught_up(pipeline, spark)
    assert verified(pipeline, spark).equal


def stops_alone(pipeline: Pipeline, spark: SparkSession, why: str) -> None:
    """The table stays as it was, and says why; the other one is followed."""
    before = rows(pipeline, spark)
    pipeline.run("INSERT INTO others VALUES (5)")
    with pytest.raises(PreconditionError, match=rf"public\.things is followed no further than .*{why}"):
        caught_up(pipeline, spark)
    assert rows(pipeline, spark) == before
    report = verified(pipeline, spark)
    assert [str(stop.name) for stop in report.stopped] == ["public.things"]
    assert not report.equal
    assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
    assert any("public.things is followed no further" in problem for problem in problems(pipeline))
    # nothing is done about it by itself
    assert not booted(pipeline, spark).changed


def test_a_type_that_changes_beside_a_running_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    booted(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run("INSERT INTO things VALUES (2, 2.5)")
        running.wait_for("lake: 1 changes")
        pipeline.run(
            "ALTER TABLE things ALTER total TYPE numeric(10, 4)", "ALTER TABLE things ADD COLUMN seen timestamp"
        )
        running.wait_for("public.things is followed no further")
        pipeline.run("INSERT INTO others VALUES (4)")
        running.wait_for("lake: 1 changes")
    stops_alone(pipeline, spark, r"column total was decimal\(10, 2\) and is decimal\(10, 4\)")
    pipeline.run("INSERT INTO things VALUES (3, 2.1234, now())")
    goes_on(pipeline, spark)


def test_a_row_of_more_columns_is_kept_and_not_applied(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    booted(pipeline, spark)
    pipeline.run(
        "ALTER TABLE things ADD COLUMN more text",
        "INSERT INTO things VALUES (2, 2.5, 'lost?')",
        "ALTER TABLE things DROP COLUMN more",
    )
    stops_alone(pipeline, spark, r"1 messages cannot be read, .* more \[more\], less \[\]")
    goes_on(pipeline, spark)


def test_all_stops_where_that_is_asked_for(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    pipeline.configure("    kind: delta\n", "    kind: delta\n    on_refusal: stop\n")
    booted(pipeline, spark)
    pipeline.run("ALTER TABLE things ADD COLUMN more text", "INSERT INTO things VALUES (2, 2.5, 'lost?')")
    with pytest.raises(PreconditionError, match=r"public\.things has changed since it was copied: column more came"):
        caught_up(pipeline, spark)
    pipeline.run("ALTER TABLE things DROP COLUMN more")
    with pytest.raises(PreconditionError, match=r"1 messages cannot be read, .*; nothing of the batch was applied"):
        caught_up(pipeline, spark)
    goes_on(pipeline, spark)


def test_a_key_that_changed_and_was_taken_back(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    pipeline.run("ALTER TABLE things ALTER total SET NOT NULL")
    booted(pipeline, spark)
    key = "ALTER TABLE things DROP CONSTRAINT things_pkey, ADD PRIMARY KEY"
    with following(pipeline, spark) as running:
        pipeline.run(f"{key} (id, total)", "INSERT INTO things VALUES (1, 5.5)")
        running.wait_for("public.things is followed no further")
        pipeline.run("DELETE FROM things WHERE total = 5.5", f"{key} (id)")
    stops_alone(pipeline, spark, "")
    goes_on(pipeline, spark)


def test_a_key_that_changed_and_was_taken_back_between_two_runs(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    pipeline.run("ALTER TABLE things ALTER total SET NOT NULL")
    booted(pipeline, spark)
    key = "ALTER TABLE things DROP CONSTRAINT things_pkey, ADD PRIMARY KEY"
    pipeline.run(f"{key} (id, total)", "INSERT INTO things VALUES (1, 5.5)", "DELETE FROM things WHERE total = 5.5")
    pipeline.run(f"{key} (id)")
    caught_up(pipeline, spark)
    assert verified(pipeline, spark).equal


def test_a_column_that_went_and_came_again(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    booted(pipeline, spark)
    pipeline.run(
        "ALTER TABLE things DROP COLUMN total", "ALTER TABLE things ADD COLUMN total numeric(10, 2) DEFAULT 9.99"
    )
    stops_alone(pipeline, spark, "column total went and came again")
    goes_on(pipeline, spark)


def test_a_table_that_was_made_again(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLE, tables=TABLES)
    booted(pipeline, spark)
    pipeline.run("DROP TABLE things", "CREATE TABLE things (id bigint PRIMARY KEY, note text)")
    pipeline.run("INSERT INTO things VALUES (1, 'x')")
    stops_alone(pipeline, spark, "was dropped and made again")
    goes_on(pipeline, spark)
