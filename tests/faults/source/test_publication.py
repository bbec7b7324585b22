"""Changes that a publication leaves out are lost to the log: their tables are copied again."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.heartbeat import write_heartbeat
from cdc.core.errors import PreconditionError
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend_bootstrapped, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "CREATE TABLE parted (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000)",
    "INSERT INTO things SELECT n, n FROM generate_series(1, 20) AS n",
    "INSERT INTO parted SELECT n, n::text FROM generate_series(1, 20) AS n",
)
PARTS = {
    "operations": ("SET (publish = 'insert')", "SET (publish = 'insert, update, delete, truncate')"),
    "leaves": ("SET (publish_via_partition_root = false)", "SET (publish_via_partition_root = true)"),
    "rows": ("SET TABLE {others} things WHERE (id < 5)", "SET TABLE {others} things"),
    "columns": ("SET TABLE {others} things (id)", "SET TABLE {others} things"),
}


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """A plain and a partitioned table that the lake follows; each test ends with a whole publication."""
    tables = ("public.things", "public.parted")
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*SCHEMA, tables=tables, lake_only=True))


def test_table_missing_from_the_publication_for_a_while_is_copied_again(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    """One pipeline for all parts of a publication, one after the other."""
    with following(pipeline, spark) as running:
        for number, part in enumerate(PARTS):
            leave_out(pipeline, part, number)
            running.wait_for("is copied again")
            check_equal_once_copied(pipeline, spark, part)
            assert not problems(pipeline), part


def check_equal_once_copied(pipeline: Pipeline, spark: SparkSession, part: str) -> None:
    """No table differs, nor does one stay stopped: there may be another to copy."""
    if (report := verify(pipeline, spark)).stopped:
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "all are copied again")
        report = verify(pipeline, spark)
    assert report.is_equal, (part, report)


def test_another_pipeline_of_the_source_comes_and_goes_unnoticed(
    pipeline: Pipeline, make_shared_pipeline: MakePipeline, spark: SparkSession
) -> None:
    copied = table_ids(pipeline)
    second = make_shared_pipeline(tables=("public.things", "public.parted"), lake_only=True, beside=pipeline)
    bootstrap(second, spark)
    pipeline.run("UPDATE things SET total = 1", f'DROP PUBLICATION "{second.settings.source.publication}"')
    pipeline.run("UPDATE parted SET name = 'both'")
    catch_up(pipeline, spark)
    assert table_ids(pipeline) == copied
    assert verify(pipeline, spark).is_equal


def table_ids(pipeline: Pipeline) -> dict[str, str]:
    cut = pipeline.opened().lake_follower.cuts.last()
    assert cut
    return dict(cut.ids)


def leave_out(pipeline: Pipeline, part: str, number: int) -> None:
    """Changes while the publication lacks a part, and one when it is whole again."""
    name = f'ALTER PUBLICATION "{pipeline.settings.source.publication}"'
    others = "parted, cdc.heartbeat, cdc.shapes,"
    away, back = (f"{name} {how.format(others=others)}" for how in PARTS[part])
    pipeline.run(
        away,
        f"UPDATE things SET total = -{number} WHERE id > 10",
        f"DELETE FROM things WHERE id = {number + 1}",
        f"UPDATE parted SET name = 'lost {number}' WHERE id > 10",
        back,
        f"INSERT INTO things VALUES ({30 + number}, 3)",
    )


INCOMPLETE = {
    "operations": "leaves changes out",
    "columns": "has row filters or column lists: public.things",
}
"""Parts of PARTS → what all verbs say while one is missing."""


def test_incomplete_publication_is_reported_by_each_verb_with_what_mends_it(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    name = pipeline.settings.source.publication
    with following(pipeline, spark) as running:
        for part, what in INCOMPLETE.items():
            away = PARTS[part][0].format(others="parted, cdc.heartbeat, cdc.shapes,")
            pipeline.run(f'ALTER PUBLICATION "{name}" {away}', "UPDATE things SET total = 0")
            # a table that is to be copied again may tell of it first
            running.wait_for(f"capture: publication {name} {what} → ALTER PUBLICATION")
            write_beats(pipeline)
            told = next(line for line in running.said if what in line and line.startswith("capture: "))
            told = told.removeprefix("capture: ")
            assert told in problems(pipeline)
            for verb in (verify, bootstrap):
                with pytest.raises(PreconditionError) as refused:
                    verb(pipeline, spark)
                assert str(refused.value) == told
            pipeline.run(told.partition("→ ")[2])
            running.wait_for("is copied again")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_publication_incomplete_while_nobody_follows_costs_copies_only(pipeline: Pipeline, spark: SparkSession) -> None:
    name = f'ALTER PUBLICATION "{pipeline.settings.source.publication}"'
    away, back = PARTS["operations"]
    pipeline.run(f"{name} {away}", "UPDATE things SET total = 9")
    write_beats(pipeline)
    pipeline.run(f"{name} {back}", "UPDATE parted SET name = 'again'")
    write_beats(pipeline)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def write_beats(pipeline: Pipeline) -> None:
    """Heartbeats now, so that none of them is a matter of chance."""
    source, name = pipeline.settings.source, pipeline.settings.pipeline.name
    for mark in ("one", "two"):
        write_heartbeat(pipeline.connection, source, name, mark)
