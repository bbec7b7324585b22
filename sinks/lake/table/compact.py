"""Files put together: the live rows of some become one new file, beside the commits that go on meanwhile."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.values.arrow_types import arrow_schema
from sinks.lake.delta import data_files
from sinks.lake.delta.damage import parts_of
from sinks.lake.delta.deletion_vectors import VectorFile
from sinks.lake.delta.log import Conflict
from sinks.lake.delta.scan import Share, live_rows
from sinks.lake.delta.snapshot import DataFile, now_ms, with_vector
from sinks.lake.table.writer import LiveTable, contained

Rows = npt.NDArray[np.int64]


def rewritten(live: LiveTable, paths: Collection[str]) -> bool:
    """Write the live rows of some files as one new file; says whether that came to be.

    The rows are read and written beside the commits; what these take away meanwhile is gone from the new file, too.
    """
    with live.lock:
        table, files = live.table, [live.state.files[path] for path in paths if path in live.state.files]
        vectors = [live.vector(file.path) for file in files]
        kept = [_live_places(file.rows, vector) for file, vector in zip(files, vectors, strict=True)]
    # without the lock: batches need not wait for it, and `_died_meanwhile` finds what they did
    new, keys = _written(live, files, vectors)
    with live.lock:
        # of other columns meanwhile, it would know rows without a key by other bits
        same = live.table == table and all(file.path in live.state.files for file in files)
        if same and _replaced(live, files, kept, new, keys):
            return True
    live.storage.delete([new.path])
    return False


def _live_places(rows: int, vector: BitMap) -> Rows:
    """The places of the rows that a vector leaves."""
    alive = np.ones(rows, np.bool_)
    alive[np.asarray(vector.to_array(), np.int64)] = False
    return np.flatnonzero(alive)


def _written(live: LiveTable, files: Sequence[DataFile], vectors: Sequence[BitMap]) -> tuple[DataFile, KeyBits]:
    """The rows that these vectors leave of files as one new file, and their keys; of the rows, few are in memory at a
    time."""
    table, reading = live.table, []
    for file, vector in zip(files, vectors, strict=True):
        rows = live_rows(live.storage, Share(file), table, vector=vector)
        reading.append(parts_of(rows, table.name, file.path))
    parts, keys = chain.from_iterable(reading), [empty_keys()]

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in parts:
            if rows.num_rows:
                keys.append(row_bits(rows, live.table))
                yield from rows.to_batches()

    schema = arrow_schema(live.table)
    new = data_files.write_in_parts(live.storage, data_files.new_path(), batches(), schema, live.bounded)
    return new, concat_keys(keys)


def _replaced(live: LiveTable, files: Sequence[DataFile], kept: Sequence[Rows], new: DataFile, keys: KeyBits) -> bool:
    """Commit the new file in place of the others; False when another writer was there first."""
    gone, now = _died_meanwhile(live, files, kept), now_ms()
    vectors = VectorFile(live.storage.vectors_in_log_bytes)
    added = with_vector(new, vectors.add(gone)) if gone else new
    marks = [vectors.path] if vectors.content else []
    if marks:
        live.storage.write(vectors.path, vectors.content)
    # with the vectors of now, since a `remove` means a path with its vector; dataChange: no row comes or goes, and
    # who follows the change feed passes it over
    removed = [live.state.files[file.path].removed(now, data_change=False) for file in files]
    came = [added.added(data_change=False)] if added.live_rows else []
    try:
        live.commit([*removed, *came], "OPTIMIZE", {added.path: gone}, {added.path: keys} if came else {})
    except Conflict:
        live.refresh()
        live.storage.delete(marks)
        return False
    if not came:
        # all its rows died meanwhile, and no commit names it
        live.storage.delete([new.path, *marks])
    return True


def _died_meanwhile(live: LiveTable, files: Sequence[DataFile], kept: Sequence[Rows]) -> BitMap:
    """The rows of the new file whose originals were taken away while it was written."""
    gone, start = BitMap(), 0
    for file, rows in zip(files, kept, strict=True):
        died = contained(live.vector(file.path), rows)
        # the new file has the rows of `kept` one behind the other
        gone |= BitMap((np.flatnonzero(died) + start).astype(np.uint32))
        start += len(rows)
    return gone
