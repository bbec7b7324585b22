"""Columns followed as text or double by choice, since no follower has a type for their values."""

import math
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.errors import IncompleteError, PreconditionError
from cdc.core.table import TableName
from tests.support.cdc_inprocess import bootstrap, catch_up, following, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

TABLES = (
    "CREATE TABLE prices (id int PRIMARY KEY, amount numeric(5,3), rate numeric(20,10), whole numeric, free numeric)",
    "ALTER TABLE prices ALTER free SET STORAGE EXTERNAL",
    "CREATE TABLE times (day date, at timestamp, zoned timestamptz, span interval, n int, PRIMARY KEY (day, zoned))",
)
CHOSEN = """  column_types:
    public.prices: {amount: text, rate: double, whole: double, free: text}
    public.times: {day: text, at: text, zoned: text, span: text}
"""
NUMERICS = (
    "('NaN', 'NaN', 'NaN', 'NaN')",
    "(1.1, 0.1, 'Infinity', 'Infinity')",
    "(-99.999, -9999999999.9999999999, '-Infinity', '-Infinity')",
    "(0, 1234567890.0123456789, 9007199254740993, 0.000)",
    f"(NULL, NULL, 1{'0' * 308}, {'7' * 9000}.{'3' * 9000})",
    f"(10, 3.3333333333, 0.{'0' * 400}1, 1e-400)",
    f"(0.001, 0.0000000001, 9007199254740992.{'9' * 500}, -1.10)",
    f"(-0.001, -0.0000000001, {'1' * 300}.5, 0.{'12' * 4000})",
)
TIMES = (
    "('infinity', 'infinity', 'infinity', 'infinity')",
    "('-infinity', '-infinity', '-infinity', '-infinity')",
    "('2024-02-29', '2024-02-29 12:34:56.120', '2024-02-29 12:34:56.7+05:30', '1 year -1 day 00:00:01.5')",
    "('4713-01-01 BC', '4713-01-01 BC', '4713-01-02 BC', '0')",
    "('0001-12-31 BC', '0001-12-31 23:59:59.999999 BC', '0001-12-31 BC', '-3 mons')",
    "('5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 00:00+00', '10 days')",
    "('12024-02-29', '294247-01-10 04:00:25.2', '294247-01-10 04:00:25.2+00', NULL)",
    "('0999-01-01', NULL, '1883-11-18 12:03:58-05', '1 mon')",
)


def pipeline_of(make_pipeline: MakePipeline, *, lake_only: bool = False) -> Pipeline:
    pipeline = make_pipeline(*TABLES, tables=("public.prices", "public.times"), lake_only=lake_only)
    pipeline.configure("  on_schema_change:", f"{CHOSEN}  on_schema_change:")
    insert(pipeline, 0)
    return pipeline


def insert(pipeline: Pipeline, turn: int) -> None:
    for number, row in enumerate(NUMERICS):
        pipeline.run(f"INSERT INTO prices VALUES ({100 * turn + number}, {row.strip('()')})")
    if turn:
        pipeline.run("DELETE FROM times")
    for row in TIMES:
        pipeline.run(f"INSERT INTO times VALUES ({row.strip('()')}, {turn})")


def read_source(pipeline: Pipeline, table: str, expressions: str) -> list[tuple[Any, ...]]:
    """What Postgres has, as it writes it."""
    pipeline.run("SET DateStyle = 'ISO'", "SET TimeZone = 'UTC'", "SET IntervalStyle = 'postgres'")
    rows = pipeline.connection.execute(f"SELECT {expressions} FROM {table}".encode()).fetchall()
    return sorted(rows, key=repr)


def read_lake(pipeline: Pipeline, spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """What the lake has."""
    frame = spark.read.format("delta").load(pipeline.opened().lake.folder(TableName("public", table)))
    return sorted(map(tuple, frame.collect()), key=repr)


def is_as_written(pipeline: Pipeline, spark: SparkSession) -> None:
    texts = "format('%s', day), at::text, zoned::text, span::text, n"
    assert read_lake(pipeline, spark, "times") == read_source(pipeline, "times", texts)
    prices = read_source(pipeline, "prices", "id, amount::text, rate::float8, whole::text, free::text")
    # Postgres casts no numeric to a double that is nearer to 0 than all of them
    expected = [(i, amount, rate, whole and float(whole), free) for i, amount, rate, whole, free in prices]
    assert list(map(repr, read_lake(pipeline, spark, "prices"))) == sorted(map(repr, expected))


def test_every_value_through_copy_and_log(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = pipeline_of(make_pipeline)
    bootstrap(pipeline, spark)
    is_as_written(pipeline, spark)
    with following(pipeline, spark):
        insert(pipeline, 1)
        # large values that are not sent, and keys that are infinite
        pipeline.run("UPDATE prices SET amount = 'NaN' WHERE id < 100", "UPDATE times SET n = 7 WHERE day = 'infinity'")
        pipeline.run("UPDATE times SET day = '-infinity', at = NULL WHERE day = '2024-02-29'")
        assert verify(pipeline, spark).is_equal
    is_as_written(pipeline, spark)
    assert not bootstrap(pipeline, spark).has_changed


def test_changed_column_types_cause_a_new_copy(
    make_pipeline: MakePipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = pipeline_of(make_pipeline, lake_only=True)
    bootstrap(pipeline, spark)
    pipeline.configure("amount: text", "amount: double")
    assert "public.prices has changed since it was copied" in incomparable(pipeline, spark)
    insert(pipeline, 1)
    assert set(map(str, bootstrap(pipeline, spark).copied)) == {"public.prices"}
    said = "public.prices is copied again: source.column_types has changed: amount as double"
    assert said in capsys.readouterr().err
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    # and by `cdc follow`, which has the table stop before it reads anything
    pipeline.configure("zoned: text, span: text", "zoned: text")
    pipeline.run("DELETE FROM times WHERE span IN ('infinity', '-infinity')")
    catch_up(pipeline, spark)
    insert_one = "INSERT INTO times VALUES ('2024-03-01', 'infinity', 'infinity', '2 days', 3)"
    pipeline.run(insert_one)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert "P2D" in [row[3] for row in read_lake(pipeline, spark, "times")]
    pipeline.configure("rate: double, whole: double", "whole: double")
    with pytest.raises(IncompleteError, match=r"source\.column_types has changed: rate as it is"):
        catch_up(pipeline, spark)
    said = capsys.readouterr().err
    assert "not copied again yet: public.prices: column rate holds NaN" in said
    assert "→ correct the value, follow the column as text (source.column_types), or leave the table out" in said


def incomparable(pipeline: Pipeline, spark: SparkSession) -> str:
    report = verify(pipeline, spark)
    return " ".join(map(str, report.incomparable.values()))


def test_unsupported_column_types_are_refused(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*TABLES, tables=("public.prices", "public.times"))
    bad = "  column_types:\n    public.prices: {id: text, none: text}\n    public.times: {n: double, day: double}\n"
    pipeline.configure("  on_schema_change:", f"{bad}  on_schema_change:")
    with pytest.raises(TablesRefusedError) as refused:
        bootstrap(pipeline, spark)
    offered = (
        " → numeric can be text, double or decimal(p,s); date, timestamp, timestamptz, interval, vectors and geometries"
        " can be text"
    )
    assert list(refused.value.lines) == [
        f"public.prices: source.column_types names id as text, and its type is integer{offered}",
        "public.prices: source.column_types names none as text, which it does not have → correct source.column_types",
        f"public.times: source.column_types names n as double, and its type is integer{offered}",
        f"public.times: source.column_types names day as double, and its type is date{offered}",
    ]


def test_numeric_as_nearest_double(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE prices (id int PRIMARY KEY, n numeric)",
        f"INSERT INTO prices VALUES (1, 1{'0' * 309})",
        tables=("public.prices",),
        lake_only=True,
    )
    pipeline.configure("  on_schema_change:", "  column_types: {public.prices: {n: double}}\n  on_schema_change:")
    with pytest.raises(PreconditionError, match=r"column n holds a number that no double is near to.*, where id = 1 →"):
        bootstrap(pipeline, spark)
    pipeline.run(f"UPDATE prices SET n = -17976931348623157{'0' * 292}")
    bootstrap(pipeline, spark)
    assert read_lake(pipeline, spark, "prices") == [(1, -math.nextafter(math.inf, 0))]
