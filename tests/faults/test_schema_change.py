"""Schema changes with policy `stop`: each table stops at its change, the others go on, a new copy repairs it."""

import re

from pyspark.sql import SparkSession

from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, problems, verify
from tests.support.pipelines import MakePipeline, Pipeline

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


def rows(pipeline: Pipeline, spark: SparkSession, name: str) -> list[tuple[int, str]]:
    lake = spark.read.format("delta").load(f"{pipeline.settings.delta[1].path}/public/{name}")
    return sorted((row["id"], str(row["total"])) for row in lake.collect())


def test_each_altered_table_stops_alone_and_is_recopied(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    made = [
        text.format(t=name)
        for name in CHANGES
        for text in (
            "CREATE TABLE {t} (id int PRIMARY KEY, total numeric(10, 2) NOT NULL)",
            "INSERT INTO {t} VALUES (1, 1.25)",
        )
    ]
    names = [f"public.{name}" for name in CHANGES]
    made.append("CREATE TABLE others (id int PRIMARY KEY)")
    pipeline = make_pipeline(*made, tables=(*names, "public.others"), lake_only=True)
    pipeline.configure("on_schema_change: evolve", "on_schema_change: stop")
    bootstrap(pipeline, spark)
    pipeline.run(*(text.format(t=name) for name, (_, texts) in CHANGES.items() for text in texts))
    pipeline.run("INSERT INTO others VALUES (5)")
    told = catch_up_but_for(pipeline, spark, "is followed no further than")
    lines = dict(re.findall(r"public\.(\w+) is followed no further than \S+: ([^;→]*)", told))
    others = {name for name, (why, _) in CHANGES.items() if not lines[name].partition(": ")[2].startswith(why)}
    assert others == set(), lines
    # what they show is what they had before, nothing of the change is in it
    assert {name: rows(pipeline, spark, name) for name in CHANGES} == {name: [(1, "1.25")] for name in CHANGES}
    report = verify(pipeline, spark)
    assert sorted(map(str, report.stopped)) == sorted(names)
    assert not report.is_equal
    assert [[str(table) for table in tables] for tables in report.followers.values()] == [["public.others"]]
    assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
    assert sum("is followed no further" in problem for problem in problems(pipeline)) == len(CHANGES)
    # nothing is done about it by itself
    assert not bootstrap(pipeline, spark).has_changed
    assert set(map(str, bootstrap(pipeline, spark, *names).copied)) == set(names)
    pipeline.run(
        "INSERT INTO others VALUES (7)", *(f"UPDATE {name} SET id = id + 1000 WHERE id = 1" for name in CHANGES)
    )
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
