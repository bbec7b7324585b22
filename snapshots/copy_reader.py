"""A range of a table as Arrow: read by COPY on an exported snapshot, block by block, on a connection of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Final
from urllib.parse import urlencode

import asyncpg
import pyarrow as pa
import pyarrow.compute as pc
import uvloop
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cdc.columns.values.arrow_types import arrow_schema
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.errors import PreconditionError, TableRewrittenError
from cdc.core.table import Column, Table, may_be_text
from snapshots.binary_copy import Field, RowParser
from snapshots.copy_types import copy_type
from snapshots.ranges import PageRange

LOCK_WAIT: Final = "1s"
LONGEST_SHOWN: Final = 80
"""Characters of a key's value that are told."""
BLOCK_BYTES: Final = 2 * 1024 * 1024
"""What is decoded at once stays in a processor's cache."""
# the signature, flags and the length of an extension that is empty; a count of fields that is -1
_HEADER_BYTES, _TRAILER_BYTES = 19, 2


def batches(table: Table, pages: PageRange, conninfo: str, snapshot: str) -> Iterator[pa.RecordBatch]:
    """The rows of some pages as record batches of the table's Arrow schema.

    Raises PreconditionError for a value that followers cannot hold, naming its row, and what asyncpg raises.
    """
    reader = BlockReader(table)
    for parts in _blocks(conninfo, snapshot, query(table, pages).as_string(None)):
        yield reader.batch(parts)


def query(table: Table, pages: PageRange) -> sql.Composed:
    """The SELECT of some pages."""
    # as the table has them: Postgres hands rows on as they are then, where no column is cast
    columns = [copy_type(column).selected.format(sql.Identifier(column.name)) for column in table.columns]
    name = sql.Identifier(pages.part.schema, pages.part.table)
    return sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(sql.SQL(", ").join(columns), name, pages.where)


class BlockReader:
    """Makes Arrow of a table's rows as COPY sends them."""

    def __init__(self, table: Table) -> None:
        self._table, self._schema = table, arrow_schema(table)
        self._rows = RowParser([copy_type(column).width for column in table.columns])

    def batch(self, parts: Iterable[bytes]) -> pa.RecordBatch:
        """Whole rows as a record batch of the table's Arrow schema; raises PreconditionError as `batches` does."""
        fields = dict(zip(self._table.column_names, self._rows.fields(b"".join(parts)), strict=True))
        arrays = [_to_arrow(self._table, column, fields) for column in self._table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _to_arrow(table: Table, column: Column, fields: Mapping[str, Field]) -> pa.Array:
    try:
        return copy_type(column).make(fields[column.name], column)
    except UnsupportedValueError as unfit:
        choice = "follow the column as text (source.column_types), " if may_be_text(column) else ""
        where = _describe_row(table, fields, _find_unsupported(column, fields[column.name]))
        raise PreconditionError(
            f"{table.name}: column {column.name} holds {unfit}, which followers cannot hold{where}",
            f"correct the value, {choice}or leave the table out of source.tables",
        ) from None


def _find_unsupported(column: Column, field: Field) -> int:
    """The row of the first value that is unfit, of which there is one."""
    first, behind = 0, len(field)
    while behind - first > 1:
        middle = (first + behind) // 2
        first, behind = (middle, behind) if _is_supported(column, field.rows(first, middle)) else (first, middle)
    return first


def _is_supported(column: Column, field: Field) -> bool:
    try:
        copy_type(column).make(field, column)
    except UnsupportedValueError:
        return False
    return True


def _describe_row(table: Table, fields: Mapping[str, Field], row: int) -> str:
    """The row by its key, where the table has one that can be held."""
    each = {column: fields[column.name].rows(row, row + 1) for column in table.key_columns}
    if not each or not all(_is_supported(column, field) for column, field in each.items()):
        return ""
    values = (
        f"{column.name} = {_format_value(copy_type(column).make(field, column))}" for column, field in each.items()
    )
    return f", where {' and '.join(values)}"


def _format_value(values: pa.Array) -> str:
    """A single value in one short line; not by way of Python, which has no years beyond 9999."""
    try:
        text = str(pc.cast(values, pa.string())[0])
    except pa.ArrowInvalid:
        text = str(values[0])
    return (text if text.isprintable() else repr(text))[:LONGEST_SHOWN]


def _blocks(conninfo: str, snapshot: str, query: str) -> Iterator[list[bytes]]:
    """What COPY sends of a query, in pieces of whole rows; while one is worked on, the rest waits in the socket."""
    # no asyncio.Runner: each `run` of it sets a signal handler, and thereby writes down the piece before as a text
    with closing(uvloop.new_event_loop()) as loop:
        # room for one: COPY is never further ahead of who takes the pieces
        pieces = asyncio.Queue[list[bytes]](1)
        copying = loop.create_task(_copy(conninfo, snapshot, query, pieces))
        try:
            while piece := loop.run_until_complete(_next(pieces, copying)):
                yield piece
        finally:
            # also where whoever takes the rows has had enough, or failed
            copying.cancel()
            loop.run_until_complete(asyncio.wait([copying]))


async def _next(pieces: asyncio.Queue[list[bytes]], copying: asyncio.Task[None]) -> list[bytes]:
    """The next piece, empty at the end; raises what ended the copying before it."""
    waiting = asyncio.ensure_future(pieces.get())
    await asyncio.wait({waiting, copying}, return_when=asyncio.FIRST_COMPLETED)
    # it ended without its empty piece: there is a failure to raise
    if not waiting.done() and pieces.empty():
        waiting.cancel()
        await copying
    return await waiting


async def _copy(conninfo: str, snapshot: str, query: str, pieces: asyncio.Queue[list[bytes]]) -> None:
    """Run COPY on the snapshot, and put its rows and then an empty piece."""
    parts, size = list[bytes](), 0
    header = _HEADER_BYTES

    # a row is one CopyData message (manual, "COPY Operations"), and asyncpg hands on whole ones: rows are never cut
    async def take(data: bytes) -> None:
        nonlocal parts, size, header
        # only what is followed by more: the last piece has the trailer
        if size >= BLOCK_BYTES:
            await pieces.put(parts)
            parts, size = [], 0
        parts.append(data[header:])
        size, header = size + len(data), 0

    async with _reading(conninfo, snapshot) as connection:
        try:
            await connection.copy_from_query(query, output=take, format="binary")
        except asyncpg.LockNotAvailableError as error:
            raise TableRewrittenError(
                f"somebody waits to alter a table that is read ({error})", "start again"
            ) from None
    rest = b"".join(parts)[:-_TRAILER_BYTES]
    await pieces.put([rest] if rest else [])
    await pieces.put([])


@asynccontextmanager
async def _reading(conninfo: str, snapshot: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that sees the source as it was when the snapshot was exported."""
    asked = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    # a certificate's file can be named in an address only
    tls = urlencode([(name, asked[name]) for name in ("sslmode", "sslrootcert") if name in asked])
    connection = await asyncpg.connect(
        f"postgresql://?{tls}",
        host=asked["host"],
        port=int(asked["port"]),
        user=asked["user"],
        password=asked.get("password"),
        database=asked["dbname"],
        timeout=float(asked.get("connect_timeout", 60)),
        server_settings={name: asked[name] for name in ("application_name", "options") if name in asked}
        # who waits for the lock of an ALTER stands before us in the queue, and behind the session that keeps the
        # snapshot, which waits for us: Postgres sees no deadlock in that (pg_dump's workers give way likewise)
        | {"lock_timeout": LOCK_WAIT},
    )
    try:
        # the weakest isolation that may import a snapshot, and that before any query
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            yield connection
    finally:
        # at once: whoever stops in the middle of a COPY does not wait for the rest of it
        connection.terminate()
