"""Keys that a comparison names by their documents are read back as the keys that they are, whatever their types."""

from collections.abc import Iterator, Mapping, Sequence

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from cdc.columns.rows.documents import key_documents
from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.core.table import Table, TableName
from cdc.run.repair.source_rows import KEYS_AT_ONCE, read_keys, select_keys
from cdc.run.trace.source_row import name_table, read_rows
from cdc.run.verify.rolling.look import parse_name
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.postgres_types import KINDS, SETUP

USUAL = {"int", "bigint", "text", "uuid", "boolean", "date", "timestamp", "timestamptz", "bytea", "numeric(10,2)"}
NAME = TableName("public", "keyed")
SECRET = b"a secret of the tests"


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Pipeline:
    return make_pipeline(*SETUP, "CREATE TABLE keyed (id int PRIMARY KEY)", tables=(str(NAME),))


def make_keyed(pipeline: Pipeline, type: str, values: Sequence[str]) -> Table | None:
    """A table with keys of this type; None where Postgres has no such keys, or we do not follow them."""
    insert = sql.SQL("INSERT INTO keyed VALUES ({}::{}) ON CONFLICT DO NOTHING")
    pipeline.run("DROP TABLE IF EXISTS keyed")
    try:
        pipeline.run(f"CREATE TABLE keyed (c {type}, PRIMARY KEY (c))")
        for value in values:
            pipeline.connection.execute(insert.format(sql.Literal(value), sql.SQL(type)))
    except psycopg.Error:
        return None
    found = catalog.examine(pipeline.connection, [NAME])
    return found.fit[0] if found.fit else None


def names_of(keys: pa.Table, table: Table) -> list[dict[str, str | None]]:
    return [parse_name(text.encode()) for text in key_documents(keys, table).to_pylist()]


def read_back(pipeline: Pipeline, table: Table, at_once: int) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The keys of a table's rows, some at once, and what comes of their names."""
    with source.open_connection(pipeline.settings.source) as connection:
        rows = read_rows(connection, table, sql.Composed([name_table(connection, table)]), SECRET)
        every = select_keys(rows, table)
        for start in range(0, len(every), at_once):
            keys = every.slice(start, at_once)
            yield keys, read_keys(connection, table, names_of(keys, table), SECRET)


def test_keys_of_every_type_are_read_back_or_left_to_spark(pipeline: Pipeline) -> None:
    told = dict[str, bool]()
    for kind in KINDS:
        table = None if kind.chosen else make_keyed(pipeline, kind.type, kind.values)
        if table is not None:
            found = [*read_back(pipeline, table, 1)]
            assert [keys for keys, back in found if back is not None and not back.equals(keys)] == [], kind.type
            told[kind.type] = any(back is not None for _, back in found)
    assert {type for type, is_told in told.items() if is_told} >= USUAL & told.keys()
    assert sum(told.values()) > len(told) / 2, told


def test_many_keys_and_names_of_no_key(pipeline: Pipeline) -> None:
    pipeline.run("DROP TABLE keyed", "CREATE TABLE keyed (a int, b text, PRIMARY KEY (b, a))")
    pipeline.run(f"INSERT INTO keyed SELECT n, 'k' || n FROM generate_series(1, {2 * KEYS_AT_ONCE + 1}) n")
    [table] = catalog.examine(pipeline.connection, [NAME]).fit
    [(keys, back)] = read_back(pipeline, table, 10_000)
    assert back is not None
    assert back.equals(keys)
    wrong: list[Mapping[str, str | None]] = [{"a": "five", "b": "x"}, {"a": None, "b": "x"}, {"_id": "other"}]
    with source.open_connection(pipeline.settings.source) as connection:
        for name in wrong:
            assert read_keys(connection, table, [name], SECRET) is None
        # the session goes on
        assert read_keys(connection, table, [{"b": "k1", "a": "1"}], SECRET) is not None
