"""Small tables of a lake, read in this process by delta-rs, as other readers of Delta read them.

Spark's Delta reader takes half a second of a core before the first row (two jobs for the log).
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from cdc.columns.rows import digest as digests
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.errors import PreconditionError
from cdc.core.table import Table
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.settings import S3Settings

HELD_BYTES: Final = 32 * 2**20
"""The most that one table takes in memory; files of few bytes may hold many."""


def hold_small(lake: Lake, table: Table, version: int | None = None) -> pa.Table | None:
    """The rows that `read_small` has, in memory.

    None where Spark has to read them, also for more than HELD_BYTES, or has to say why it cannot.
    """
    held, size = [arrow_schema(table).empty_table()], 0
    with suppress(DeltaError, pa.ArrowException, OSError, PreconditionError):
        parts = read_small(lake, table, version)
        if parts is None:
            return None
        for part in parts:
            held.append(part)
            size += part.nbytes
            if size > HELD_BYTES:
                return None
        return pa.concat_tables(held)
    return None


def read_small(lake: Lake, table: Table, version: int | None, most: float | None = None) -> Iterator[pa.Table] | None:
    """The rows of a table at a version, or the newest, in parts of its Arrow schema; None where Spark has to read them.

    That is a table of more than `most` bytes (`SMALL_BYTES` by default), and what only Spark can read. Raises
    PreconditionError, once it is read, when the lake lacks a column.
    """
    folder = lake.folder(table.name)
    # Spark has the keys of S3, and delta-rs decodes a % in a path
    if isinstance(lake.access, S3Settings) or "%" in folder:
        return None
    options = None
    if lake.access is not None:
        # as everything of object stores, no lake in a folder has to load it
        from cdc.sinks.lake.storage.cloud_clients import storage_options

        options = storage_options(lake.access)
    delta = DeltaTable(folder, version, options)
    return _read_rows(delta, table) if _file_bytes(delta) <= (digests.SMALL_BYTES if most is None else most) else None


def _file_bytes(delta: DeltaTable) -> int:
    files = pa.table(delta.get_add_actions(flatten=True))
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def _read_rows(delta: DeltaTable, table: Table) -> Iterator[pa.Table]:
    reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("found", delta).execute("SELECT * FROM found"))
    # `conform` would fill it with nulls, as for rows older than the column
    for name in table.column_names:
        if name not in reader.schema.names:
            raise PreconditionError(
                f"{table.name} has no column {name} in the lake", "verify again once it is followed"
            )
    for batch in reader:
        yield conform(pa.Table.from_batches([batch]), arrow_schema(table))
