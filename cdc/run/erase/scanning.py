"""Finds bytes in a file, whatever it is: as they lie there, and behind the compression of what we know how to open."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from cdc.run.erase.kafka_segments import read_batches
from cdc.run.erase.values import Sought

CHUNK: Final = 8 * 1024 * 1024
UNREADABLE: Final = (OSError, ValueError, EOFError, pa.ArrowException)

_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)

Open = Callable[[], BinaryIO]


def has_values(path: str, open_file: Open, sought: Sought) -> bool:
    """Does the file have any of the values? One that is not what its name says is searched as it lies there."""
    if not sought.texts:
        return False
    with open_file() as file:
        if _has_bytes(file, sought):
            return True
    with suppress(*UNREADABLE), open_file() as file:
        return _has_inside(path, file, sought)
    return False


def _has_inside(path: str, file: BinaryIO, sought: Sought) -> bool:
    if path.endswith(".parquet"):
        return _has_in_parquet(file, sought)
    if path.endswith((".gz", ".gzip")):
        with gzip.open(file) as plain:
            return _has_bytes(plain, sought)
    if path.endswith((".arrow", ".ipc", ".feather")):
        with pyarrow.ipc.open_file(file) as batches:
            return any(_has_text(batches.get_batch(n), sought) for n in range(batches.num_record_batches))
    if path.endswith(".log"):
        # a segment of Kafka, if it is one
        return any(sought.is_in(records) for records in read_batches(file))
    return False


def _has_bytes(file: BinaryIO | gzip.GzipFile, sought: Sought) -> bool:
    """In parts that overlap by the longest pattern."""
    patterns, rest = sought.patterns, b""
    overlap = max(map(len, patterns)) - 1
    while part := file.read(CHUNK):
        whole = rest + part
        if any(pattern in whole for pattern in patterns):
            return True
        rest = whole[-overlap:] if overlap else b""
    return False


def _has_in_parquet(file: BinaryIO, sought: Sought) -> bool:
    # all columns, those among them that Delta's checkpoints have
    return any(_has_text(batch, sought) for batch in pq.ParquetFile(file).iter_batches(50_000))


def _has_text(rows: pa.RecordBatch, sought: Sought) -> bool:
    return any(
        pc.any(pc.match_substring(texts, pattern)).as_py() for texts in list_texts(rows) for pattern in sought.patterns
    )


def list_texts(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.Array]:
    """The values of all columns, and of what is nested in them, as bytes; numbers as their digits."""
    columns = rows.combine_chunks().columns if isinstance(rows, pa.Table) else rows.columns
    for column in columns:
        for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            yield from _list_leaves(array)


def _list_leaves(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _list_leaves(array.dictionary)
    elif pa.types.is_struct(kind):
        for field in array.flatten():
            yield from _list_leaves(field)
    elif pa.types.is_map(kind):
        yield from _list_leaves(array.keys)
        yield from _list_leaves(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _list_leaves(array.flatten())
    elif any(test(kind) for test in _TEXTS):
        yield array.cast(pa.large_binary())
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        yield array.cast(pa.string()).cast(pa.large_binary())
