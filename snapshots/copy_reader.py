"""Reads a range of a table as Arrow: by COPY on an exported snapshot, block by block, on its own connection.

asyncpg and uvloop beside psycopg: COPY through them takes larger pieces from the socket, and so less CPU.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Final

import asyncpg
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import uvloop
from psycopg import sql

from cdc.columns.types.arrow_types import arrow_schema
from cdc.columns.types.copied_fields import Field
from cdc.columns.types.registry import type_of
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.errors import PreconditionError, TableRewrittenError
from cdc.core.table import Column, Table
from cdc.postgres.errors import to_cdc_error
from cdc.postgres.session import is_bound, open_session
from cdc.snapshots.binary_copy import RowParser
from cdc.snapshots.bound_copy import copy_bound
from cdc.snapshots.masked_columns import read_copied, select_column
from cdc.snapshots.ranges import PageRange

LOCK_WAIT: Final = "1s"
LONGEST_SHOWN: Final = 80
"""Characters of a key's value in an error."""
BLOCK_BYTES: Final = 2 * 1024 * 1024
"""Bytes to parse at once, so that they stay in the CPU's cache."""
# header: signature, flags, length of an empty extension; trailer: a field count of -1
_HEADER_BYTES, _TRAILER_BYTES = 19, 2


def batches(
    table: Table, pages: PageRange, conninfo: str, snapshot: str, secret: bytes = b""
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some pages as record batches of the table's Arrow schema; `secret`: of hashed columns.

    Raises PreconditionError for a value that followers cannot hold (naming its row), TableRewrittenError when an ALTER
    waits for the table, and CdcError for other errors of the source.
    """
    reader = BlockReader(table, secret)
    for parts in _blocks(conninfo, snapshot, query(table, pages).as_string(None)):
        yield reader.batch(parts)


def query(table: Table, pages: PageRange) -> sql.Composed:
    """Make the SELECT of some pages."""
    # all columns in the table's order: without casts Postgres passes stored rows on unchanged
    columns = [select_column(column) for column in table.columns]
    name = sql.Identifier(pages.part.schema, pages.part.table)
    select = sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(sql.SQL(", ").join(columns), name, pages.where)
    return sql.Composed([select, filter_rows(table)])


def filter_rows(table: Table) -> sql.Composable:
    """Make the further condition of the rows that are followed, behind others; empty if all of them are."""
    return sql.SQL(" AND (" + table.where + ")") if table.where else sql.SQL("")


class BlockReader:
    """Converts a table's rows from COPY's binary format to Arrow."""

    def __init__(self, table: Table, secret: bytes = b"") -> None:
        self._table, self._schema, self._secret = table, arrow_schema(table), secret
        self._rows = RowParser([type_of(column).copied_width for column in table.columns])

    def batch(self, parts: Iterable[bytes]) -> pa.RecordBatch:
        """Convert whole rows to a record batch of the table's Arrow schema; raises PreconditionError like `batches`."""
        fields = dict(zip(self._table.column_names, self._rows.fields(b"".join(parts)), strict=True))
        arrays = [_to_arrow(self._table, column, fields, self._secret) for column in self._table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def read_copied_rows(table: Table, copied: bytes, secret: bytes) -> pa.RecordBatch:
    """Convert what COPY in binary gave of a few rows; raises PreconditionError like `batches`."""
    return BlockReader(table, secret).batch([copied[_HEADER_BYTES:-_TRAILER_BYTES]])


def _to_arrow(table: Table, column: Column, fields: Mapping[str, Field], secret: bytes) -> pa.Array:
    try:
        return read_copied(fields[column.name], column, secret)
    except UnsupportedValueError as unfit:
        choices = " or ".join(type_of(column).wider)
        choice = f"follow the column as {choices} (source.column_types), " if choices else ""
        where = _describe_row(table, fields, secret, _find_unsupported(column, fields[column.name]))
        raise PreconditionError(
            f"{table.name}: column {column.name} holds {unfit}, which followers cannot hold{where}",
            f"correct the value, {choice}or leave the table out of source.tables",
        ) from None


def _find_unsupported(column: Column, field: Field) -> int:
    """Find the first row with an unsupported value, by bisection; there is at least one."""
    first, behind = 0, len(field)
    while behind - first > 1:
        middle = (first + behind) // 2
        first, behind = (middle, behind) if _is_supported(column, field.rows(first, middle)) else (first, middle)
    return first


def _is_supported(column: Column, field: Field) -> bool:
    try:
        type_of(column).from_copy(field, column)
    except UnsupportedValueError:
        return False
    return True


def _describe_row(table: Table, fields: Mapping[str, Field], secret: bytes, row: int) -> str:
    """Describe the row by its key; empty if the table has no key, or the key itself is unsupported."""
    key = {column: fields[column.name].rows(row, row + 1) for column in table.key_columns}
    if not key or not all(_is_supported(column, field) for column, field in key.items()):
        return ""
    values = (f"{column.name} = {_format_value(read_copied(field, column, secret))}" for column, field in key.items())
    return f", where {' and '.join(values)}"


def _format_value(values: pa.Array) -> str:
    """Write a single value in one short line; through Arrow, since Python has no years beyond 9999."""
    try:
        text = str(pc.cast(values, pa.string())[0])
    except pa.ArrowInvalid:
        text = str(values[0])
    return (text if text.isprintable() else repr(text))[:LONGEST_SHOWN]


def _blocks(conninfo: str, snapshot: str, query: str) -> Iterator[list[bytes]]:
    """Read a query by COPY in pieces of whole rows; while one is processed, the rest waits in the socket."""
    # no asyncio.Runner: each `run` sets a signal handler, and thereby formats the previous piece as text
    with closing(uvloop.new_event_loop()) as loop:
        # a queue of one: COPY is at most one piece ahead of its consumer
        pieces = asyncio.Queue[list[bytes]](1)
        copying = loop.create_task(_copy(conninfo, snapshot, query, pieces))
        try:
            while piece := loop.run_until_complete(_next(pieces, copying)):
                yield piece
        finally:
            # also when the consumer stops early or fails
            copying.cancel()
            loop.run_until_complete(asyncio.wait([copying]))


async def _next(pieces: asyncio.Queue[list[bytes]], copying: asyncio.Task[None]) -> list[bytes]:
    """Wait for the next piece, empty at the end; raises the error that ended the COPY."""
    waiting = asyncio.ensure_future(pieces.get())
    await asyncio.wait({waiting, copying}, return_when=asyncio.FIRST_COMPLETED)
    # the COPY ended without its empty piece: it failed
    if not waiting.done() and pieces.empty():
        waiting.cancel()
        await copying
    return await waiting


async def _copy(conninfo: str, snapshot: str, query: str, pieces: asyncio.Queue[list[bytes]]) -> None:
    """Run COPY on the snapshot, and put its rows and then an empty piece."""
    parts, size = list[bytes](), 0
    header = _HEADER_BYTES

    # each row is one CopyData message (manual, "COPY Operations"), and asyncpg passes whole ones on: rows are never cut
    async def take(data: bytes) -> None:
        nonlocal parts, size, header
        # only when more data follows: the last piece needs the trailer cut off
        if size >= BLOCK_BYTES:
            await pieces.put(parts)
            parts, size = [], 0
        parts.append(data[header:])
        size, header = size + len(data), 0

    try:
        if is_bound(conninfo):
            await copy_bound(conninfo, query, snapshot, LOCK_WAIT, take)
        else:
            async with _reading(conninfo, snapshot) as connection:
                await connection.copy_from_query(query, output=take, format="binary")
    except (asyncpg.LockNotAvailableError, psycopg.errors.LockNotAvailable) as error:
        raise TableRewrittenError(f"somebody waits to alter a table that is read ({error})", "start again") from None
    except (asyncpg.PostgresError, psycopg.Error) as error:
        # here, since Spark hands on no more of a task's error than its text
        raise to_cdc_error("the source ended a COPY", error.sqlstate, error) from error
    rest = b"".join(parts)[:-_TRAILER_BYTES]
    await pieces.put([rest] if rest else [])
    await pieces.put([])


@asynccontextmanager
async def _reading(conninfo: str, snapshot: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a session that sees the source as of the exported snapshot."""
    # A waiting ALTER is queued behind the session that holds the snapshot, and our lock behind the ALTER; that session
    # waits for us, which Postgres does not see as a deadlock. So give up (as pg_dump's workers do).
    connection = await open_session(conninfo, ("application_name", "options"), {"lock_timeout": LOCK_WAIT})
    try:
        # the weakest isolation that may import a snapshot, and that before any query
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            yield connection
    finally:
        # terminate, not close: a COPY that is stopped in the middle would be read to its end
        connection.terminate()
