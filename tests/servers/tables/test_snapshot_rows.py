"""Rows decoded from COPY of real tables equal the rows that Postgres shows."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.core.errors import PreconditionError, TableRewrittenError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.snapshots import copy_reader as rows
from cdc.snapshots.ranges import page_ranges
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

KINDS = {
    "flag": "boolean",
    "small": "smallint",
    "whole": "integer",
    "large": "bigint",
    "single": "real",
    "double": "double precision",
    "short": "numeric(12,3)",
    "fraction": "numeric(18,18)",
    "long": "numeric(38,10)",
    "free": "numeric",
    "words": "text",
    "padded": "char(5)",
    "document": "jsonb",
    "raw": "bytea",
    "name": "uuid",
    "day": "date",
    "hour": "time",
    "moment": "timestamp",
    "instant": "timestamptz",
}
EDGES = (
    "(1, false, -32768, -2147483648, -9223372036854775808, '-Infinity', 'NaN', -999999999.999, -0.999999999999999999,"
    " -9999999999999999999999999999.9999999999, 'NaN', '', '', '{}', '', '00000000-0000-0000-0000-000000000000',"
    " '4713-01-01 BC', '00:00', '4713-01-01 BC', '4713-01-02 BC')",
    "(2, true, 32767, 2147483647, 9223372036854775807, '1e-45', '2.2250738585072014e-308', 0.001, 0, 0.0000000001,"
    " 1e400, repeat('ß', 40000), 'ab', '[1.10]', decode(repeat('ff', 70000), 'hex'),"
    " 'ffffffff-ffff-ffff-ffff-ffffffffffff', '5874897-12-31', '24:00', '294246-12-31 23:59:59.999999',"
    " '2024-02-29 12:00+05:30')",
)
MANY = """INSERT INTO things SELECT g, g % 2 = 0, g % 9, g, -g, g / 3.0, g / 7.0, g / 8.0, 0.5 / g, g * 1e9 / 11,
    g / 13.0, repeat(chr(64 + g % 400), g % 30), 'x', to_jsonb(g), int8send(g), md5(g::text)::uuid,
    '2000-01-01'::date + g % 40000 - 20000, time '00:00' + g * interval '1 ms',
    timestamp '2000-01-01' - g * interval '1 s', timestamptz '1970-01-01' + g * interval '1.000001 s'
    FROM generate_series(3, 60000) g"""
SOME_NULL = "UPDATE things SET large = NULL, short = NULL, words = NULL, day = NULL, raw = NULL WHERE id % 3 = 0"


@contextmanager
def snapshot(pipeline: Pipeline) -> "Iterator[tuple[str, psycopg.Connection[Any]]]":
    with source.open_connection(pipeline.settings.source, autocommit=False) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        exported = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert exported
        yield exported[0], connection


def read(pipeline: Pipeline, table: Table, taken: str, ranges: int) -> pa.Table:
    found = [
        batch
        for share in page_ranges({table.name: 5_000}, ranges)
        for pages in share
        for batch in rows.batches(table, pages, source.conninfo(pipeline.settings.source), taken)
    ]
    return pa.Table.from_batches(found)


ASKED = {
    Kind.REAL: "{}::float8",
    Kind.NUMERIC: "{}::text",
    Kind.JSON: "{}::text",
    Kind.UUID: "{}::text",
    Kind.DATE: "{} - DATE '1970-01-01'",
    Kind.TIME: "to_char({}, 'HH24:MI:SS.US')",
    Kind.TIMESTAMP: "(extract(epoch FROM {}) * 1000000)::bigint",
    Kind.TIMESTAMPTZ: "(extract(epoch FROM {}) * 1000000)::bigint",
}
"""What Python can hold of a kind, where it cannot hold all its values."""
HELD = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIMESTAMPTZ: pa.int64()}


def read_source(connection: "psycopg.Connection[Any]", column: Column) -> list[Any]:
    expression = sql.SQL(ASKED.get(column.kind, "{}")).format(sql.Identifier(column.name))
    return [row[0] for row in connection.execute(sql.SQL("SELECT {} FROM things ORDER BY id").format(expression))]


def test_every_kind_at_its_edges(make_pipeline: MakePipeline) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    pipeline = make_pipeline(f"CREATE TABLE things (id int PRIMARY KEY, {columns})", tables=("public.things",))
    pipeline.run(*(f"INSERT INTO things VALUES {row}" for row in EDGES), MANY, SOME_NULL)
    with snapshot(pipeline) as (taken, connection):
        (table,) = catalog.read_tables(connection, [TableName("public", "things")])
        pipeline.run("DELETE FROM things WHERE id > 10")
        found = read(pipeline, table, taken, 3).sort_by("id")
        assert len(found) == 60_000
        for column in table.columns:
            values = found[column.name]
            mine = values.cast(HELD[column.kind]) if column.kind in HELD else values
            # NaN is not equal to itself
            assert list(map(repr, mine.to_pylist())) == list(map(repr, read_source(connection, column))), column


def test_failing_query_reports_its_cause(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",))
    with snapshot(pipeline) as (_, connection):
        (table,) = catalog.read_tables(connection, [TableName("public", "things")])
        with pytest.raises(PreconditionError, match=r"ended a COPY: snapshot .* does not exist"):
            read(pipeline, table, "00000003-00000002-1", 1)


def test_reader_ends_when_somebody_waits_to_alter_the_table(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE things (id int PRIMARY KEY)", "INSERT INTO things VALUES (1)", tables=("public.things",)
    )
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    with ThreadPoolExecutor(1) as thread:
        with snapshot(pipeline) as (taken, keeping):
            (table,) = catalog.read_tables(keeping, [TableName("public", "things")])
            keeping.execute("LOCK TABLE things IN ACCESS SHARE MODE")
            altering = thread.submit(pipeline.run, "ALTER TABLE things ADD COLUMN n int")
            until(lambda: keeping.execute(waits).fetchone() == (1,), "somebody waits to alter it")
            with pytest.raises(TableRewrittenError, match="somebody waits to alter a table"):
                read(pipeline, table, taken, 1)
        altering.result()
