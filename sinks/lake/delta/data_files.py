"""Parquet files of a table: written with their statistics, and read row by row where a few old values are needed."""

import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.arrays import Integers, Mask
from cdc.columns.values.arrow_types import LONGEST_WHOLE
from sinks.lake.delta import statistics
from sinks.lake.delta.snapshot import DataFile, now_ms
from sinks.lake.storage.base import Storage

CHANGE_TYPE: Final = "_change_type"
CHANGE_FOLDER: Final = "_change_data"
COMPRESSION: Final = "zstd"
REPEATED: Final = 8
"""So often a value has to come, on average, for a dictionary of them."""
FEW_ROWS: Final = 4096
MOST_UNLIKE: Final = 0.9
"""Where more than this part of the first FEW_ROWS differ, a column's values hardly come REPEATED times each: not unless
they come in turn."""
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
"""A value of one row is read with its row group: tables with large values have smaller groups."""


def change_types(existed: Mask) -> pa.Array:
    """What happened to rows that are there now: they came, or they changed."""
    kinds = pa.DictionaryArray.from_arrays(pa.array(existed, pa.int8()), ["insert", "update_postimage"])
    return kinds.cast(pa.string())


def new_path() -> str:
    """Where a new data file goes: what begins like this and is named by no commit is swept away in time."""
    return f"part-{uuid.uuid4()}.parquet"


def write(storage: Storage, rows: pa.Table, bounded: Sequence[str], change_types: pa.Array | None = None) -> DataFile:
    """Write rows as a new data file, durable when this returns; in no table before a commit names it.

    With `change_types` the file is its own change data as well.
    """
    path = new_path()
    held = rows if change_types is None else rows.append_column(CHANGE_TYPE, change_types)
    content = packed(held)
    storage.write(path, content)
    stats = statistics.as_text(statistics.of_rows(rows, bounded))
    return DataFile(path, len(content), rows.num_rows, stats, now_ms())


def write_in_parts(
    storage: Storage, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, bounded: Sequence[str]
) -> DataFile:
    """Write batches of this schema as a new data file; only a row group of them is in memory at a time."""
    groups = grouped(batches)
    # the first row group speaks for all: how columns are encoded is chosen when the file is begun
    first = next(groups, schema.empty_table())
    found = statistics.of_rows(schema.empty_table(), bounded)
    with storage.writing(path) as file:
        with pq.ParquetWriter(file, schema, compression=COMPRESSION, **_encodings(first)) as writer:
            for rows in chain([first], groups):
                writer.write_table(rows, group_rows(rows))
                found = statistics.together([found, statistics.of_rows(rows, bounded)])
        # behind the writer's end, which has written the footer
        size = file.tell()
    return DataFile(path, size, found["numRecords"], statistics.as_text(found), now_ms())


def write_changes(storage: Storage, rows: pa.Table) -> tuple[str, int]:
    """Write change data that is in no data file: its path and size."""
    path, content = f"{CHANGE_FOLDER}/cdc-{uuid.uuid4()}.parquet", packed(rows)
    storage.write(path, content)
    return path, len(content)


def packed(rows: pa.Table) -> pa.Buffer:
    """Rows as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    # of few rows, half of the file would be statistics, which the log has, and Arrow's schema, which nobody needs
    told = rows.num_rows > FEW_ROWS
    options = {"write_statistics": told, "store_schema": told, "row_group_size": group_rows(rows)}
    pq.write_table(rows, sink, compression=COMPRESSION, **options, **_encodings(rows))
    return sink.getvalue()


def group_rows(rows: pa.Table) -> int:
    """How many rows a row group takes; all as many, so that none is left with a few."""
    count: int = rows.num_rows
    if not count:
        return ROW_GROUP_ROWS
    fitting: int = max(64, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES * count // max(rows.nbytes, 1)))
    return math.ceil(count / max(1, round(count / fitting)))


def grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together until they fill a row group."""
    group, size = list[pa.RecordBatch](), 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group)


def _encodings(rows: pa.Table) -> dict[str, Any]:
    """How the columns of a file are encoded that begins with these rows: what `pq.ParquetWriter` is asked for.

    Whole numbers, and what is held as such, by what they differ from the one before, which leaves the compression
    little to do (Parquet, "Encodings", DELTA_BINARY_PACKED); Spark's vectorized reader knows it, too.
    """
    again = repeating(rows)
    differing = [field.name for field in rows.schema if field.name not in again and _is_whole(field.type)]
    return {
        "use_dictionary": again,
        "column_encoding": dict.fromkeys(differing, "DELTA_BINARY_PACKED"),
        # otherwise they are bytes, which have no such encoding
        "store_decimal_as_integer": True,
    }


def _is_whole(kind: pa.DataType) -> bool:
    """Are values of this type whole numbers of at most 64 bits in the file?"""
    whole = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in whole) or (pa.types.is_decimal(kind) and kind.precision <= LONGEST_WHOLE)


def repeating(rows: pa.Table) -> list[str]:
    """The columns whose values come again and again: for others, a dictionary is most of the work of writing a file."""
    # a list's values are a column of their own in the file, and hardly worth a look
    flat = [field.name for field in rows.schema if not pa.types.is_list(field.type)]
    # keys, times and free texts show in a few rows already that they hardly ever come again
    few = rows.slice(0, FEW_ROWS)
    again = [name for name in flat if pc.count_distinct(few[name]).as_py() < MOST_UNLIKE * few.num_rows]
    return [name for name in again if pc.count_distinct(rows[name]).as_py() * REPEATED <= rows.num_rows]


def read(storage: Storage, path: str, columns: Sequence[str]) -> pa.Table:
    """These columns of all physical rows of a file, in their order."""
    return _opened(storage, path).read(list(columns))


def read_rows(storage: Storage, path: str, columns: Sequence[str], rows: Integers) -> pa.Table:
    """These columns of some rows of a file, in the order of `rows`; only the row groups that they lie in are read."""
    file = _opened(storage, path)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    groups = np.searchsorted(starts, rows, "right") - 1
    needed = np.unique(groups)
    found = file.read_row_groups(needed.tolist(), list(columns))
    # in `found`, the groups that were read stand side by side
    new_starts = np.concatenate([[0], np.cumsum([sizes[group] for group in needed])])
    return found.take(pa.array(new_starts[np.searchsorted(needed, groups)] + rows - starts[groups]))


def _opened(storage: Storage, path: str) -> pq.ParquetFile:
    """A file of which neighbouring parts are read in one go, since an object store takes its time for each."""
    return pq.ParquetFile(storage.open(path), pre_buffer=True)
