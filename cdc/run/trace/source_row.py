"""One row of the source, with the types that copies have; and its key, if there is no such row."""

from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import Connection, sql

from cdc.connect.source.access.connection import current_lsn
from cdc.core.errors import ConfigurationError
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.core.text.plural import format_count
from cdc.postgres.values import read_value
from cdc.snapshots.copy_reader import filter_rows, read_copied_rows
from cdc.snapshots.masked_columns import select_column

_COMMITTED = "SELECT current_setting('track_commit_timestamp')::bool"


@dataclass(frozen=True, slots=True)
class SourceSighting:
    """The row if there is one, else its key alone; at the source's end. `committed_ms`: if the source remembers it."""

    key: pa.RecordBatch
    row: pa.RecordBatch | None
    lsn: Lsn
    committed_ms: int | None


def read_source_row(connection: Connection, table: Table, key: list[str], secret: bytes) -> SourceSighting:
    """Read the row with this key, each part as Postgres writes it. A row that is not followed is none.

    `secret`: of hashed columns, whose hashes the key and the row have.

    Raises ConfigurationError for texts that are no values of the key's columns.
    """
    if len(key) != len(table.key):
        raise ConfigurationError(
            f"the key of {table.name} is {', '.join(table.key)}, not {format_count(len(key), 'value')}",
            "give one for each column",
        )
    try:
        own = read_rows(connection, table, _make_key(table, key), secret)
        followed = name_row(connection, table, key) + sql.Composed([filter_rows(table)])
        found = read_rows(connection, table, followed, secret)
        committed = _read_commit_time(connection, table, key)
    except psycopg.DataError as error:
        raise ConfigurationError(
            f"that is no key of {table.name}: {error.diag.message_primary}", "write it as Postgres does"
        ) from None
    return SourceSighting(own, found if found.num_rows else None, current_lsn(connection), committed)


def read_rows(connection: Connection, table: Table, source: sql.Composed, secret: bytes) -> pa.RecordBatch:
    """The rows of what stands behind FROM, as a copy would have them. `secret`: of hashed columns."""
    columns = [select_column(column) for column in table.columns]
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT BINARY)").format(sql.SQL(", ").join(columns), source)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        return read_copied_rows(table, b"".join(map(bytes, copy)), secret)


def _make_key(table: Table, key: list[str]) -> sql.Composed:
    """A row of the table's type with its key alone: Postgres parses each value by its column's type."""
    pairs = [
        sql.SQL("{}, {}::text").format(sql.Literal(n), sql.Literal(v)) for n, v in zip(table.key, key, strict=True)
    ]
    name = sql.Identifier(table.name.schema, table.name.table)
    return sql.SQL("jsonb_populate_record(NULL::{}, jsonb_build_object({})) AS made").format(
        name, sql.SQL(", ").join(pairs)
    )


def name_row(connection: Connection, table: Table, key: list[str]) -> sql.Composed:
    """The table and the condition of its row with this key, followed or not, as they stand behind FROM."""
    return sql.SQL("{} WHERE {}").format(name_table(connection, table), _match_key(table, key))


def _match_key(table: Table, key: list[str]) -> sql.Composed:
    # literals without a type: Postgres takes the column's, and an index of it
    parts = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Literal(v)) for n, v in zip(table.key, key, strict=True)]
    return sql.SQL(" AND ").join(parts)


def name_table(connection: Connection, table: Table) -> sql.Composed:
    """The table without those that inherit from it, which are not followed; of a partitioned one, its partitions."""
    name = sql.Identifier(table.name.schema, table.name.table)
    kind = read_value(connection, "SELECT relkind::text FROM pg_class WHERE oid = %s::regclass", name.as_string(None))
    return sql.SQL("{}" if kind == "p" else "ONLY {}").format(name)


def _read_commit_time(connection: Connection, table: Table, key: list[str]) -> int | None:
    """When the row's version was committed, if the source keeps that (track_commit_timestamp)."""
    if not read_value(connection, _COMMITTED):
        return None
    query = sql.SQL("SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000 FROM {}")
    row = connection.execute(query.format(name_row(connection, table, key))).fetchone()
    return int(row[0]) if row and row[0] is not None else None
