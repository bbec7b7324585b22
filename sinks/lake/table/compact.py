"""Compaction: the live rows of several files become one new file, beside concurrent commits."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.fail_points import reach
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files, statistics
from cdc.sinks.lake.delta.damage import read_parts
from cdc.sinks.lake.delta.deletion_vectors import VectorFile, deleted_mask
from cdc.sinks.lake.delta.log import ConflictError
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import DataFile, now_ms, with_vector
from cdc.sinks.lake.table.writer import TableWriter

RowNumbers = npt.NDArray[np.int64]


def compact_files(writer: TableWriter, paths: Collection[str]) -> bool:
    """Write the live rows of some files as one new file; returns whether it was committed.

    Reads and writes without the lock. Rows deleted meanwhile are deleted from the new file, too.
    """
    with writer.lock:
        table, present = writer.table, [writer.snapshot.files[path] for path in paths if path in writer.snapshot.files]
        files = [data_files.with_row_count(writer.storage, file) for file in present]
        vectors = [writer.rows.vector(file.path) for file in files]
        row_numbers = [_live_row_numbers(file.rows, vector) for file, vector in zip(files, vectors, strict=True)]
    # without the lock, so batches need not wait; `_find_new_deletes` catches up on them
    new, keys = _write_live_rows(writer, table, files, vectors)
    reach("compact.written")
    with writer.lock:
        # a column added meanwhile would change the fingerprints of rows without a key
        same = writer.table == table and all(file.path in writer.snapshot.files for file in files)
        if same and _replace_files(writer, files, row_numbers, new, keys):
            return True
    # another writer was first: no commit names the file
    writer.storage.delete([new.path])
    return False


def _live_row_numbers(rows: int, vector: BitMap) -> RowNumbers:
    """The row numbers that a vector leaves alive."""
    alive = np.ones(rows, np.bool_)
    alive[np.asarray(vector.to_array(), np.int64)] = False
    return np.flatnonzero(alive)


def _write_live_rows(
    writer: TableWriter, table: Table, files: Sequence[DataFile], vectors: Sequence[BitMap]
) -> tuple[DataFile, KeyBits]:
    """Write the live rows of files as one new file, a part at a time; returns it and its keys.

    `table`: as it was when the files were chosen; the writer's own may get a column meanwhile.
    """
    bounded, reading = statistics.choose_columns(table.column_names, table.key), []
    for file, vector in zip(files, vectors, strict=True):
        rows = live_rows(writer.storage, Share(file), table, vector=vector)
        reading.append(read_parts(rows, table.name, file.path))
    parts, keys = chain.from_iterable(reading), [empty_keys()]

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in parts:
            if rows.num_rows:
                keys.append(row_bits(rows, table))
                yield from rows.to_batches()

    new = data_files.write_in_parts(writer.storage, data_files.new_path(), batches(), arrow_schema(table), bounded)
    return new, concat_keys(keys)


def _replace_files(
    writer: TableWriter, files: Sequence[DataFile], row_numbers: Sequence[RowNumbers], new: DataFile, keys: KeyBits
) -> bool:
    """Commit the new file in place of the others; False when another writer was first."""
    deleted, now = _find_new_deletes(writer, files, row_numbers), now_ms()
    vectors = VectorFile(writer.storage.vectors_in_log_bytes)
    added = with_vector(new, vectors.add(deleted)) if deleted else new
    marks = [vectors.path] if vectors.content else []
    if marks:
        writer.storage.write(vectors.path, vectors.content)
    # with current vectors: a `remove` identifies path and vector. dataChange is false: no row changes, and readers of
    # the change feed skip the commit
    removed = [writer.snapshot.files[file.path].remove_action(now, data_change=False) for file in files]
    additions = [added.add_action(data_change=False)] if added.live_rows else []
    try:
        writer.commit(
            [*removed, *additions], "OPTIMIZE", {added.path: deleted}, {added.path: keys} if additions else {}
        )
    except ConflictError:
        writer.refresh()
        writer.storage.delete(marks)
        return False
    if not additions:
        # all rows died meanwhile: no commit names the new file
        writer.storage.delete([new.path, *marks])
    return True


def _find_new_deletes(writer: TableWriter, files: Sequence[DataFile], row_numbers: Sequence[RowNumbers]) -> BitMap:
    """The new file's rows whose originals were deleted while it was written."""
    deleted, start = BitMap(), 0
    for file, rows in zip(files, row_numbers, strict=True):
        is_deleted = deleted_mask(writer.rows.vector(file.path), rows)
        # the new file holds these rows in order
        deleted |= BitMap((np.flatnonzero(is_deleted) + start).astype(np.uint32))
        start += len(rows)
    return deleted
