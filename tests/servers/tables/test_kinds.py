"""Every type arrives through copy and stream as the value that Postgres has."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.columns.rows.documents import documents
from cdc.columns.types.arrow_types import arrow_schema
from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.core.table import Table, TableName
from cdc.sinks.lake.layout import folder_name
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.servers_fixture import Servers
from tests.support.postgres_types import FURTHER_EXTENSIONS, FURTHER_KINDS, KINDS, SETUP, Tried

STREAMED = 1_000
"""Added to the id of a row that comes by the stream."""
NAME = TableName("public", "kinds")
TABLES = (str(NAME), "public.never_null")


def test_values_through_copy_and_stream(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    both_ways(make_pipeline(*SETUP, tables=TABLES), spark, KINDS)


def test_types_of_further_extensions(servers: Servers, make_pipeline: MakePipeline, spark: SparkSession) -> None:
    with servers.connect() as admin:
        there = {row[0] for row in admin.execute("SELECT name FROM pg_available_extensions")}
    if lacking := set(FURTHER_EXTENSIONS) - there:
        pytest.skip(f"this Postgres has no {', '.join(sorted(lacking))}")
    made = (f"CREATE EXTENSION {name}" for name in FURTHER_EXTENSIONS)
    pipeline = make_pipeline(*made, "CREATE DOMAIN embedding AS vector(2)", tables=TABLES)
    both_ways(pipeline, spark, FURTHER_KINDS)


def both_ways(pipeline: Pipeline, spark: SparkSession, kinds: Sequence[Tried]) -> None:
    columns = ", ".join(f"c{number} {kind.type}" for number, kind in enumerate(kinds))
    pipeline.run(f"CREATE TABLE kinds (id int PRIMARY KEY, flag boolean, {columns})")
    choose_types(pipeline, kinds)
    insert(pipeline, 0, kinds)
    make_never_null(pipeline, kinds)
    bootstrap(pipeline, spark)
    # of the old rows the source sends the key alone, though no column may be null
    pipeline.run("DELETE FROM never_null WHERE id = 1", "UPDATE never_null SET id = 3 WHERE id = 2")
    insert(pipeline, STREAMED, kinds)
    # a change that leaves long values alone, which are then not sent
    pipeline.run("UPDATE kinds SET flag = NOT flag WHERE id % 2 = 0")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    with source.open_connection(pipeline.settings.source) as connection:
        [table] = catalog.read_tables(connection, [NAME], pipeline.settings.source.choices)
    found, expected = in_lake(pipeline, table), read_expected(pipeline, kinds)
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        for row in range(len(kind.values)):
            copied, streamed = found[row][name], found[row + STREAMED][name]
            assert copied == streamed, (kind.type, kind.values[row])
            if kind.shown:
                assert comparable(copied) == comparable(expected[row][name]), (kind.type, kind.values[row])
            assert copied is not None, (kind.type, kind.values[row])


def choose_types(pipeline: Pipeline, kinds: Sequence[Tried]) -> None:
    chosen = "".join(f"      c{n}: {kind.chosen}\n" for n, kind in enumerate(kinds) if kind.chosen)
    if chosen:
        pipeline.configure("  on_schema_change:", f"  column_types:\n    {NAME}:\n{chosen}  on_schema_change:")


def insert(pipeline: Pipeline, first: int, kinds: Sequence[Tried]) -> None:
    for row in range(max(len(kind.values) for kind in kinds)):
        values = [kind.values[row] if row < len(kind.values) else None for kind in kinds]
        places = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(kind.type))
            for value, kind in zip(values, kinds, strict=True)
        )
        pipeline.connection.execute(sql.SQL("INSERT INTO kinds VALUES ({}, true, {})").format(first + row, places))


def make_never_null(pipeline: Pipeline, kinds: Sequence[Tried]) -> None:
    usual = [kind for kind in kinds if not kind.chosen]
    columns = ", ".join(f"c{number} {kind.type} NOT NULL" for number, kind in enumerate(usual))
    pipeline.run(f"CREATE TABLE never_null (id int PRIMARY KEY, {columns})")
    for row in (1, 2):
        values = [sql.SQL("{}::{}").format(sql.Literal(kind.values[0]), sql.SQL(kind.type)) for kind in usual]
        pipeline.connection.execute(
            sql.SQL("INSERT INTO never_null VALUES ({}, {})").format(row, sql.SQL(", ").join(values))
        )


def in_lake(pipeline: Pipeline, table: Table) -> dict[int, dict[str, Any]]:
    """The documents of the lake's rows, read by delta-rs, by id."""
    folder = f"{pipeline.settings.followers['lake'].path}/{folder_name(NAME)}"  # type: ignore[union-attr]
    query = QueryBuilder().register("kinds", DeltaTable(folder))
    rows = pa.table(query.execute("SELECT * FROM kinds").read_all()).cast(arrow_schema(table))
    made = [json.loads(text, parse_float=str, parse_int=str) for text in documents(rows, table).to_pylist()]
    return {int(row["id"]): row for row in made}


def read_expected(pipeline: Pipeline, kinds: Sequence[Tried]) -> dict[int, dict[str, Any]]:
    """What Postgres says that documents are to hold."""
    parts = [f"({kind.shown.format(f'c{n}') or 'NULL'})::text AS c{n}" for n, kind in enumerate(kinds) if kind.shown]
    with source.open_connection(pipeline.settings.source) as connection:
        connection.execute("SET IntervalStyle = iso_8601")
        found = connection.execute(f"SELECT id, {', '.join(parts)} FROM kinds".encode())
        names = [column.name for column in found.description or ()]
        return {row[0]: dict(zip(names, row, strict=True)) for row in found.fetchall()}


def comparable(value: Any) -> str:
    """A value of a document, or Postgres's text of it, as one text."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    if text in ("true", "false", "True", "False"):
        return text.lower()
    try:
        return (
            json.dumps(json.loads(text, parse_float=str, parse_int=str), ensure_ascii=False)
            if text[:1] == "["
            else text
        )
    except ValueError:
        return text
