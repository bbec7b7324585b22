"""The rows of some keys in the source, on an exported snapshot, as a copy has them: masked, and by the filters."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import Connection, sql

from cdc.columns.rows.documents import key_documents
from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.connect.source.access import connection as source
from cdc.core.errors import PreconditionError
from cdc.core.mask import Mask
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables.resume_check import require_position
from cdc.run.trace.source_row import name_table, read_rows
from cdc.run.verify.pinned_source import pin_source
from cdc.run.verify.rolling.look import parse_name
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.snapshots.copy_reader import filter_rows

KEYS_AT_ONCE: Final = 500
"""Keys of one statement: few enough that the planner goes by the index of a large table."""


@dataclass(frozen=True, slots=True)
class RowsAtLsn:
    """The rows of the keys asked for, by table, at an LSN of the source; `cut`: one of the lake from before it.

    `refused`: tables of which keys, or values, are none that followers hold, and why.
    """

    lsn: Lsn
    cut: Cut
    rows: Mapping[TableName, pa.Table]
    refused: Mapping[TableName, PreconditionError]


def check_keys(table: Table) -> PreconditionError | None:
    """Why rows of a table cannot be repaired by their keys, with the remedy; None if they can."""
    remedy = f"`cdc bootstrap --again {table.name}` copies it"
    if not table.key:
        return PreconditionError(f"{table.name} has no key by which rows could be repaired", remedy)
    if any(Mask.of_column(column) for column in table.key_columns):
        return PreconditionError(f"the key of {table.name} is masked: nobody can look for its rows", remedy)
    return None


def read_at_lsn(pipeline: Pipeline, connection: Connection[Any], keys: Mapping[Table, pa.Table]) -> RowsAtLsn:
    """Read the rows of these keys at one LSN."""
    # before the snapshot: whatever the lake has by then, the source shows
    cut = pipeline.table_cuts.last()
    assert cut is not None
    start, src = require_position(pipeline.lake_follower).log_start, pipeline.settings.source
    names = [table.name for table in keys]
    with pin_source(pipeline, connection, names, start, 0) as pinned, _reading(pipeline, pinned.keeper.snapshot) as own:
        rows, refused = read_tables(own, keys, src.mask_key)
        return RowsAtLsn(pinned.lsn, cut, rows, refused)


def read_tables(
    connection: Connection[Any], keys: Mapping[Table, pa.Table], secret: bytes
) -> tuple[Mapping[TableName, pa.Table], Mapping[TableName, PreconditionError]]:
    """The rows of these keys by table; and the tables of which a key cannot be looked for, or a value not be held."""
    rows, refused = dict[TableName, pa.Table](), dict[TableName, PreconditionError]()
    for table, wanted in keys.items():
        try:
            rows[table.name] = _read(connection, table, wanted, secret)
        except PreconditionError as refusal:
            refused[table.name] = refusal
    return rows, refused


def read_keys(
    connection: Connection[Any], table: Table, names: Sequence[Mapping[str, str | None]], secret: bytes
) -> pa.Table | None:
    """The keys with these names, by column as their documents have them, with the types of copies.

    None if Postgres reads one as another key, or as none: it is the name of no row. None, too, for keys with floats.
    """
    parts = list[pa.Table]()
    # -0 has another fingerprint than 0, and as a name the same text
    if any(pa.types.is_floating(each.type) for each in key_schema(table)):
        return None
    for start in range(0, len(names), KEYS_AT_ONCE):
        some = names[start : start + KEYS_AT_ONCE]
        try:
            documents = [{name: _as_input(table, name, named.get(name)) for name in table.key} for named in some]
            with connection.transaction():
                found = select_keys(
                    read_rows(connection, table, _populate(table, json.dumps(documents)), secret), table
                )
        # names of no key: no base64, no value of the type, none that its domain takes
        except (ValueError, psycopg.DataError, psycopg.IntegrityError):
            return None
        back = [parse_name(text.encode()) for text in key_documents(found, table).to_pylist()]
        if back != [*map(dict, some)] or any(None in name.values() for name in back):
            return None
        parts.append(found)
    return pa.concat_tables([key_schema(table).empty_table(), *parts])


def _as_input(table: Table, column: str, text: str | None) -> str | None:
    """A document has bytes in base64."""
    is_bytes = pa.types.is_binary(key_schema(table).field(column).type)
    return f"\\x{base64.b64decode(text).hex()}" if is_bytes and text is not None else text


@contextmanager
def _reading(pipeline: Pipeline, snapshot: str) -> Iterator[Connection[Any]]:
    with source.open_connection(pipeline.settings.source, autocommit=False) as own, own.transaction():
        own.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        own.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        yield own


def _read(connection: Connection[Any], table: Table, keys: pa.Table, secret: bytes) -> pa.Table:
    parts = [arrow_schema(table).empty_table()]
    for start in range(0, len(keys), KEYS_AT_ONCE):
        some = keys.slice(start, KEYS_AT_ONCE)
        asked = _name_keys(table, some)
        _check_read_back(connection, table, some, asked, secret)
        columns = sql.SQL(", ").join(map(sql.Identifier, table.key))
        found = sql.SQL("{} WHERE ({}) IN (SELECT {} FROM {})").format(
            name_table(connection, table), columns, columns, asked
        )
        rows = read_rows(connection, table, found + sql.Composed([filter_rows(table)]), secret)
        parts.append(pa.Table.from_batches([rows]))
    return pa.concat_tables(parts)


def _check_read_back(
    connection: Connection[Any], table: Table, keys: pa.Table, asked: sql.Composed, secret: bytes
) -> None:
    """Raise PreconditionError where Postgres reads a key as another one: its row would count as deleted."""
    try:
        with connection.transaction():
            back = read_rows(connection, table, asked, secret)
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        # without Postgres's words, which show the value
        back, why = None, f"Postgres refuses them ({error.sqlstate})"
    else:
        why = "they come back as other values"
    if back is None or not _are_same(back, keys, table):
        raise PreconditionError(
            f"keys of {table.name} cannot be looked for in the source: {why}",
            f"`cdc bootstrap --again {table.name}` copies it",
        )


def _are_same(back: pa.RecordBatch, keys: pa.Table, table: Table) -> bool:
    ours, theirs = row_bits(keys, table), row_bits(pa.Table.from_batches([back]), table)
    return len(ours) == len(theirs) and bool(are_among(ours, theirs).all())


def _name_keys(table: Table, keys: pa.Table) -> sql.Composed:
    """The keys as rows of the table's type, as they stand behind FROM: Postgres parses each by its column's type."""
    return _populate(table, _to_json(table, keys))


def _populate(table: Table, documents: str) -> sql.Composed:
    name = sql.Identifier(table.name.schema, table.name.table)
    return sql.SQL("jsonb_populate_recordset(NULL::{}, {}) AS asked").format(name, sql.Literal(documents))


def _to_json(table: Table, keys: pa.Table) -> str:
    documents = [json.loads(text) for text in key_documents(keys, table).to_pylist()]
    for name in table.key:
        if pa.types.is_binary(keys.schema.field(name).type) or pa.types.is_large_binary(keys.schema.field(name).type):
            _write_bytes(documents, name, keys[name].to_pylist())
    return json.dumps(documents)


def _write_bytes(documents: Sequence[dict[str, Any]], name: str, values: Sequence[bytes]) -> None:
    for document, value in zip(documents, values, strict=True):
        document[name] = f"\\x{value.hex()}"


def select_keys(rows: pa.RecordBatch | pa.Table, table: Table) -> pa.Table:
    """The keys of rows."""
    whole = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return whole.select(table.key).cast(key_schema(table))
