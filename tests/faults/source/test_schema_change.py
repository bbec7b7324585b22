"""Schema changes with policy `stop`: each table stops at its change, the others go on, a new copy repairs it."""

import re
from dataclasses import dataclass
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

KEY = "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY"
CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "typed": (
        "column total was decimal(10, 2) and is decimal(10, 4)",
        ("ALTER TABLE {t} ALTER total TYPE numeric(10, 4)", "INSERT INTO {t} VALUES (3, 2.1234)"),
    ),
    "undone": (
        "column more came",
        (
            "ALTER TABLE {t} ADD COLUMN more text",
            "INSERT INTO {t} VALUES (2, 2.5, 'lost?')",
            "ALTER TABLE {t} DROP COLUMN more",
        ),
    ),
    "keyed": (
        "its key was (id) and is (id, total)",
        (
            f"{KEY} (id, total)",
            "INSERT INTO {t} VALUES (1, 5.5)",
            "DELETE FROM {t} WHERE total = 5.5",
            f"{KEY} (id)",
        ),
    ),
    "filled": (
        "column total went",
        ("ALTER TABLE {t} DROP COLUMN total", "ALTER TABLE {t} ADD COLUMN total numeric(10, 2) DEFAULT 9.99"),
    ),
    "made": (
        "it was dropped or renamed",
        ("DROP TABLE {t}", "CREATE TABLE {t} (id bigint PRIMARY KEY, note text)", "INSERT INTO {t} VALUES (1, 'x')"),
    ),
}


NAMES = [f"public.{name}" for name in CHANGES]


@dataclass(frozen=True)
class Stopped:
    """A pipeline whose tables have all changed but one, and the line that tells of them."""

    pipeline: Pipeline
    told: str


@pytest.fixture(scope="module")
def stopped(make_shared_pipeline: MakePipeline, spark: SparkSession) -> Stopped:
    made = [
        text.format(t=name)
        for name in CHANGES
        for text in (
            "CREATE TABLE {t} (id int PRIMARY KEY, total numeric(10, 2) NOT NULL)",
            "INSERT INTO {t} VALUES (1, 1.25)",
        )
    ]
    made.append("CREATE TABLE others (id int PRIMARY KEY)")
    pipeline = make_shared_pipeline(*made, tables=(*NAMES, "public.others"), lake_only=True)
    pipeline.configure("on_schema_change: evolve", "on_schema_change: stop")
    bootstrap(pipeline, spark)
    pipeline.run(*(text.format(t=name) for name, (_, texts) in CHANGES.items() for text in texts))
    pipeline.run("INSERT INTO others VALUES (5)")
    return Stopped(pipeline, catch_up_but_for(pipeline, spark, "is followed no further than"))


def rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[str, int, str]]:
    """The rows of all tables that stop, with their tables."""
    lake = spark.read.format("delta")
    frames = [
        lake.load(f"{pipeline.settings.delta[1].path}/public/{name}").select(
            F.lit(name), F.col("id").cast("long"), F.col("total").cast("string")
        )
        for name in CHANGES
    ]
    return sorted(map(tuple, reduce(DataFrame.unionAll, frames).collect()))


@pytest.mark.parametrize("name", CHANGES)
def test_reason_of_each_stop_is_told(stopped: Stopped, name: str) -> None:
    lines = dict(re.findall(r"public\.(\w+) is followed no further than \S+: ([^;→]*)", stopped.told))
    assert lines[name].partition(": ")[2].startswith(CHANGES[name][0])


def test_stopped_tables_have_the_rows_from_before_the_change(stopped: Stopped, spark: SparkSession) -> None:
    assert rows(stopped.pipeline, spark) == [(name, 1, "1.25") for name in sorted(CHANGES)]


def test_only_the_other_table_is_compared(stopped: Stopped, spark: SparkSession) -> None:
    report = verify(stopped.pipeline, spark)
    assert sorted(map(str, report.stopped)) == sorted(NAMES)
    assert not report.is_equal
    compared = {str(table): v.comparison for tables in report.followers.values() for table, v in tables.items()}
    assert {table: found and found.equal for table, found in compared.items()} == {"public.others": True}


def test_each_stop_is_a_problem(stopped: Stopped) -> None:
    assert sum("is followed no further" in problem for problem in problems(stopped.pipeline)) == len(CHANGES)


def test_bootstrap_repairs_stopped_tables_when_asked(stopped: Stopped, spark: SparkSession) -> None:
    pipeline = stopped.pipeline
    assert not bootstrap(pipeline, spark).has_changed
    assert set(map(str, bootstrap(pipeline, spark, *NAMES).copied)) == set(NAMES)
    pipeline.run(
        "INSERT INTO others VALUES (7)", *(f"UPDATE {name} SET id = id + 1000 WHERE id = 1" for name in CHANGES)
    )
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
