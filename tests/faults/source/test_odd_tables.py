"""Odd names are followed; unsupported values and tables are reported before anything wrong is stored."""

import re

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.columns.rows.compare import Comparison
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.dead_letters import drop, list_blocked_keys
from cdc.sinks.lake.feed.feed import LakeFeed
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, following, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.parts.pipelines import MakePipeline
from tests.support.waiting import until

THINGS, OTHERS = TableName("public", "things"), TableName("public", "others")
KEPT = Table(THINGS, (Column("id", Kind.INTEGER), Column("v", Kind.DATE)), ("id",))


COLUMNS = (
    'CREATE TABLE "Order Items" ("i d" int PRIMARY KEY, "select" text, "a.b" text)',
    """INSERT INTO "Order Items" VALUES (1, 'x', 'y')""",
)
"""A table whose columns have odd names, too."""
ODD = (
    ("public", "things"),
    ("public", "Things"),
    ("PUBLIC", "things"),
    ("public", "the things"),
    ("public", "the$things"),
    ("public", "the.things"),
    ("public", 'the"things'),
    ("public", "the'things"),
    ("public", "the`things"),
    ("public", "select"),
    ("public", "ü" * 31 + "x"),
    ("public", "ü" * 31 + "y"),
    ("public", "🐘"),
    ("public", "%s {0} \\ ,;:*?"),
    ("public", "_hidden"),
    ("public", "a-b.c%20ü"),
    ("order by", "a/b"),
)


def test_odd_and_similar_names_keep_their_own_rows(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    each = [sql.Identifier(schema, table).as_string() for schema, table in ODD]
    made = [f"CREATE TABLE {name} (id int PRIMARY KEY, of text)" for name in each]
    filled = [f"INSERT INTO {name} VALUES (1, 'copied {n}')" for n, name in enumerate(each)]
    schemas = ('CREATE SCHEMA "PUBLIC"', 'CREATE SCHEMA "order by"')
    names = [*(f"{schema}.{table}" for schema, table in ODD), "public.Order Items"]
    pipeline = make_pipeline(*schemas, *made, *filled, *COLUMNS, tables=tuple(names))
    bootstrap(pipeline, spark)
    pipeline.run(*(f"INSERT INTO {name} VALUES (2, 'streamed {n}')" for n, name in enumerate(each)))
    pipeline.run("""UPDATE "Order Items" SET "select" = 'z', "i d" = 2""")
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal
    assert {len(tables) for tables in report.followers.values()} == {len(names)}


UNFIT_IN_A_COPY = {
    "dates": ("date", "infinity"),
    "instants": ("timestamptz", "-infinity"),
    "numbers": ("numeric(9,2)", "NaN"),
    "years": ("timestamp", "294276-12-31"),
}


def test_unsupported_values_in_copies(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = [f"CREATE TABLE {name} (id int PRIMARY KEY, v {kind})" for name, (kind, _) in UNFIT_IN_A_COPY.items()]
    filled = [f"INSERT INTO {name} VALUES (1, '{value}'), (2, NULL)" for name, (_, value) in UNFIT_IN_A_COPY.items()]
    others = ("CREATE TABLE others (id int PRIMARY KEY)", "INSERT INTO others VALUES (1)")
    unfit = [TableName("public", name) for name in UNFIT_IN_A_COPY]
    tables = tuple(map(str, (*unfit, OTHERS)))
    pipeline = make_pipeline(*made, *filled, *others, tables=tables, lake_only=True)
    pipeline.set_environ(monkeypatch)
    assert main(["--config", str(pipeline.config), "bootstrap"]) == 3
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert [f"{name}: column v holds " in line for name, line in zip(unfit, errors, strict=True)] == [True] * len(unfit)
    # the other one has its copy
    report = verify(pipeline, spark)
    assert sorted(report.incomparable) == unfit
    assert [each[OTHERS].comparison for each in report.followers.values()] == [Comparison(1, 1)]
    pipeline.run(*(f"DELETE FROM {name} WHERE id = 1" for name in UNFIT_IN_A_COPY))
    assert bootstrap(pipeline, spark).copied == dict.fromkeys(unfit, 1)


UNFIT = {
    "date": "infinity",
    "timestamptz": "-infinity",
    "timestamp": "294276-12-31",
    "numeric(9,2)": "NaN",
    "date[]": "{infinity}",
    "interval": "infinity",
    "interval[]": "{-infinity}",
}
FIRST_INFINITE_INTERVALS = 170_000


def test_unsupported_value_in_the_log_blocks_its_key(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE others (id int PRIMARY KEY)", tables=("public.things", "public.others"), lake_only=True
    )
    infinite = pipeline.connection.info.server_version >= FIRST_INFINITE_INTERVALS
    tried = {kind: value for kind, value in UNFIT.items() if infinite or not kind.startswith("interval")}
    pipeline.run(
        f"CREATE TABLE things (id int PRIMARY KEY, {', '.join(f'v{n} {kind}' for n, kind in enumerate(tried))})",
        f"INSERT INTO things (id) SELECT generate_series(0, {len(tried)})",
    )
    bootstrap(pipeline, spark)
    pipeline.run(*(f"UPDATE things SET v{n} = '{value}' WHERE id = {n}" for n, value in enumerate(tried.values())))
    pipeline.run(f"DELETE FROM things WHERE id = {len(tried)}")
    catch_up_but_for(pipeline, spark, "keys held")
    held = sorted(list_blocked_keys(pipeline.opened()), key=lambda each: each.key or b"")
    assert [each.key for each in held] == [b'{"id":%d}' % n for n in range(len(tried))]
    told = [each.reason for n, each in enumerate(held) if f"column v{n} holds " not in each.reason]
    assert told == []
    # nor can the source be compared, which the other tables are
    report = verify(pipeline, spark)
    assert re.search("column v0 holds infinity.*, where id = 0 →", str(report.incomparable[THINGS]))
    assert [list(each) for each in report.followers.values()] == [[OTHERS]]
    assert not report.has_differences
    assert verify(pipeline, spark, OTHERS).is_equal
    pipeline.run(*(f"UPDATE things SET v{n} = NULL WHERE id = {n}" for n in range(len(tried))))
    catch_up_but_for(pipeline, spark, "keys held")
    assert drop(pipeline.opened(), [each.locations[0] for each in held]).still_blocked == ()
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_refused_copy_leaves_the_old_one(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE things (id int PRIMARY KEY, v date)",
        "CREATE TABLE others (id int PRIMARY KEY)",
        "INSERT INTO things VALUES (1, '2024-02-29'), (2, NULL)",
        tables=("public.things", "public.others"),
        lake_only=True,
    )
    bootstrap(pipeline, spark)
    pipeline.run("UPDATE things SET v = 'infinity' WHERE id = 1")
    with pytest.raises(PreconditionError, match="column v holds infinity"):
        bootstrap(pipeline, spark, "public.things")
    with pytest.raises(ConfigurationError, match=r"public\.thongs is no table"):
        bootstrap(pipeline, spark, "public.thongs")
    # the old rows stay there to be read
    things = LakeFeed(spark, pipeline.opened().lake).rows(KEPT)
    with following(pipeline, spark) as running:
        pipeline.run("INSERT INTO others VALUES (1)")
        # in whichever order: the copy is tried beside the stream
        until(lambda: any("lake: 1 change" in line for line in running.said), "the others go on", LIMIT_SECONDS)
        running.wait_for("not copied again yet: public.things: column v holds infinity")
        assert things.count() == 2
        pipeline.run("UPDATE things SET v = NULL")
        running.wait_for("public.things is copied again: 2 rows")
        assert verify(pipeline, spark).is_equal
