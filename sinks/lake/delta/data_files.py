"""Write Parquet files with their statistics, and read them back, whole or a few rows at a time."""

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.arrays import Integers, Mask
from cdc.columns.types.decimals import LONGEST_WHOLE
from cdc.sinks.lake.delta import statistics
from cdc.sinks.lake.delta.snapshot import DataFile, now_ms
from cdc.sinks.lake.storage.base import Storage

CHANGE_TYPE: Final = "_change_type"
CHANGE_FOLDER: Final = "_change_data"
COMPRESSION: Final = "zstd"
MIN_REPEATS: Final = 8
"""Average number of occurrences per value that makes a dictionary worthwhile."""
FEW_ROWS: Final = 4096
MAX_DISTINCT_SHARE: Final = 0.9
"""If over 90 % of the first FEW_ROWS are distinct, skip dictionary encoding for the column."""
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Reading one row's value reads its row group: tables with large values get smaller groups."""


def change_types(existed: Mask) -> pa.Array:
    """The change type of rows in the table: `insert`, or `update_postimage` where the key existed."""
    kinds = pa.DictionaryArray.from_arrays(pa.array(existed, pa.int8()), ["insert", "update_postimage"])
    return kinds.cast(pa.string())


def new_path() -> str:
    """A path for a new data file. `delete_orphans` deletes files of this pattern when no commit names them."""
    return f"part-{uuid.uuid4()}.parquet"


def write(storage: Storage, rows: pa.Table, bounded: Sequence[str], change_types: pa.Array | None = None) -> DataFile:
    """Write rows as a new data file, durable on return; it joins the table once a commit names it.

    With `change_types`, the file serves as its own change data.
    """
    path = new_path()
    held = rows if change_types is None else rows.append_column(CHANGE_TYPE, change_types)
    content = to_parquet(held)
    storage.write(path, content)
    stats = statistics.to_json(statistics.of_rows(rows, bounded))
    return DataFile(path, len(content), rows.num_rows, stats, now_ms())


def write_in_parts(
    storage: Storage, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, bounded: Sequence[str]
) -> DataFile:
    """Write batches of this schema as a new data file; one row group is in memory at a time."""
    groups = group_batches(batches)
    # Parquet fixes the encodings when the file begins, so the first row group decides
    first = next(groups, schema.empty_table())
    stats = statistics.of_rows(schema.empty_table(), bounded)
    with storage.open_writer(path) as file:
        with pq.ParquetWriter(file, schema, compression=COMPRESSION, **_encodings(first)) as writer:
            for rows in chain([first], groups):
                writer.write_table(rows, row_group_rows(rows))
                stats = statistics.merge([stats, statistics.of_rows(rows, bounded)])
        # after the writer closed, which wrote the footer
        size = file.tell()
    return DataFile(path, size, stats["numRecords"], statistics.to_json(stats), now_ms())


def write_changes(storage: Storage, rows: pa.Table) -> tuple[str, int]:
    """Write change data that is in no data file; returns path and size in bytes."""
    path, content = f"{CHANGE_FOLDER}/cdc-{uuid.uuid4()}.parquet", to_parquet(rows)
    storage.write(path, content)
    return path, len(content)


def to_parquet(rows: pa.Table) -> pa.Buffer:
    """Encode rows as a Parquet file."""
    sink = pa.BufferOutputStream()
    # in a small file, statistics and Arrow's schema would be half of the bytes; the log has the statistics, and no
    # reader needs the schema
    is_large = rows.num_rows > FEW_ROWS
    options = {"write_statistics": is_large, "store_schema": is_large, "row_group_size": row_group_rows(rows)}
    pq.write_table(rows, sink, compression=COMPRESSION, **options, **_encodings(rows))
    return sink.getvalue()


def row_group_rows(rows: pa.Table) -> int:
    """Rows per row group, all groups of equal size: no small rest remains."""
    count: int = rows.num_rows
    if not count:
        return ROW_GROUP_ROWS
    fitting: int = max(64, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES * count // max(rows.nbytes, 1)))
    return math.ceil(count / max(1, round(count / fitting)))


def group_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches until they fill a row group."""
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
    """Choose the encodings for a file that begins with these rows, as arguments of `pq.ParquetWriter`.

    Integers and types stored as such get DELTA_BINARY_PACKED (Parquet, "Encodings"), which leaves little to compress.
    Spark's vectorized reader supports it.
    """
    again = repeating_columns(rows)
    differing = [field.name for field in rows.schema if field.name not in again and _is_whole(field.type)]
    return {
        "use_dictionary": again,
        "column_encoding": dict.fromkeys(differing, "DELTA_BINARY_PACKED"),
        # as bytes, decimals would have no such encoding
        "store_decimal_as_integer": True,
    }


def _is_whole(kind: pa.DataType) -> bool:
    """Whether Parquet stores this type as integers of at most 64 bits."""
    whole = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in whole) or (pa.types.is_decimal(kind) and kind.precision <= LONGEST_WHOLE)


def repeating_columns(rows: pa.Table) -> list[str]:
    """The columns whose values repeat. For others, building a dictionary is most of a file's cost."""
    # lists and structs are columns of their own in the file, and rarely repeat
    flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    # a look at a few rows rules out keys, times and free text cheaply
    few = rows.slice(0, FEW_ROWS)
    again = [name for name in flat if pc.count_distinct(few[name]).as_py() < MAX_DISTINCT_SHARE * few.num_rows]
    return [name for name in again if pc.count_distinct(rows[name]).as_py() * MIN_REPEATS <= rows.num_rows]


def read(storage: Storage, path: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of all physical rows of a file, in file order."""
    return _open(storage, path).read(list(columns))


def read_groups(storage: Storage, path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield columns of all physical rows of a file, a row group at a time, in file order."""
    file = _open(storage, path)
    for group in range(file.num_row_groups):
        yield file.read_row_group(group, list(columns))


def count_rows(storage: Storage, path: str) -> int:
    """The number of physical rows of a file."""
    count: int = _open(storage, path).metadata.num_rows
    return count


def with_row_count(storage: Storage, file: DataFile) -> DataFile:
    """The file with its number of rows, which other writers may have left out of the log."""
    if file.rows >= 0:
        return file
    rows = _open(storage, file.path).metadata.num_rows
    return replace(file, rows=rows, stats=json.dumps({**json.loads(file.stats), "numRecords": rows}))


def read_rows(storage: Storage, path: str, columns: Sequence[str], rows: Integers) -> pa.Table:
    """Read columns of some rows of a file, in the order of `rows`; reads only their row groups."""
    file = _open(storage, path)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    groups = np.searchsorted(starts, rows, "right") - 1
    # np.unique sorts: row groups are read in file order
    needed = np.unique(groups)
    needed_rows = file.read_row_groups(needed.tolist(), list(columns))
    # `needed_rows` holds only the needed groups, side by side: shift each row's number accordingly
    new_starts = np.concatenate([[0], np.cumsum([sizes[group] for group in needed])])
    return needed_rows.take(pa.array(new_starts[np.searchsorted(needed, groups)] + rows - starts[groups]))


def _open(storage: Storage, path: str) -> pq.ParquetFile:
    """Open a file; neighbouring ranges are read in one request."""
    return pq.ParquetFile(storage.open(path), pre_buffer=True)
