"""Find a table's live rows by fingerprints: an index says where rows are, deletion vectors say which of them live."""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.columns.types.arrow_types import conform
from cdc.core.table import TableName
from cdc.sinks.lake.delta import data_files, deletion_vectors
from cdc.sinks.lake.delta.damage import reading
from cdc.sinks.lake.delta.deletion_vectors import VectorDescriptor
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot, group_by_weight
from cdc.sinks.lake.index.key_index import KeyIndex, VersionId
from cdc.sinks.lake.index.run_files import DamagedRunError
from cdc.sinks.lake.index.sorted_runs import IndexHits, Places
from cdc.sinks.lake.storage.base import Storage, map_concurrently
from cdc.sinks.lake.table.copied_rows import read_copied, read_held
from cdc.sinks.lake.table.row_files import DamagedRowsError, RowFiles

ROWS_READ_AT_ONCE: Final = 4_000_000
"""Rows whose fingerprints are in memory while an index is rebuilt."""


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The columns that an index is of. `fingerprint` computes the bits of rows with these columns.

    `id` names the columns and their meaning: an index of another id is not used. `of_live_rows`: fingerprints are
    computed of live rows alone, since a value that nobody can compute may be in a deleted one.
    """

    names: Sequence[str]
    fingerprint: Callable[[pa.Table], KeyBits]
    id: str = ""
    of_live_rows: bool = False


class IndexedRows:
    """The rows of one table, found by fingerprints of some columns, at the version that `read_snapshot` returns.

    `folder` keeps the index between processes. `is_past`: is this version in the table's history?
    """

    def __init__(
        self,
        name: TableName,
        storage: Storage,
        columns: IndexedColumns,
        folder: Path,
        read_snapshot: Callable[[], Snapshot],
        is_past: Callable[[VersionId], bool],
    ) -> None:
        self._name = name
        self._storage = storage
        self._columns = columns
        self._folder = folder
        self._read_snapshot = read_snapshot
        self._is_past = is_past
        self._vectors: dict[str, BitMap] = {}
        self._open_index: KeyIndex | None = None
        self.row_files: RowFiles | None = None
        """Copies from which a few rows of a large file are read quickly, if there are any."""
        self.read_vector: Callable[[VectorDescriptor], BitMap] = partial(deletion_vectors.read, storage=storage)
        self.notes: list[str] = []
        """Notes about the index, for the log, each given once."""

    @property
    def snapshot(self) -> Snapshot:
        """The table's version that rows are found in."""
        return self._read_snapshot()

    def vector(self, path: str) -> BitMap:
        """The deleted rows of a file."""
        if path not in self._vectors:
            vector = self.snapshot.files[path].vector
            with reading(self._name, vector.path if vector and vector.in_file else path):
                self._vectors[path] = self.read_vector(vector) if vector else BitMap()
        return self._vectors[path]

    def set_vectors(self, vectors: Mapping[str, BitMap]) -> None:
        """Store vectors that a commit of ours made."""
        self._vectors |= vectors

    def forget_vectors(self) -> None:
        """Read vectors again: another version has others."""
        self._vectors = {}

    def estimate(self, keys: KeyBits) -> int:
        """How many entries the keys with very many have, at least about; without reading them."""
        return self._index.estimate(keys)

    def find(self, keys: KeyBits) -> IndexHits:
        """Find all entries of these fingerprints, dead rows included; rebuilds a damaged index."""
        try:
            return self._index.find(keys)
        except (DamagedRunError, OSError) as error:
            self._reset_index(error)
        self.index_new_files()
        return self._index.find(keys)

    def find_live(self, keys: KeyBits) -> IndexHits:
        """Find the live rows of these fingerprints."""
        hits = self.find(keys)
        return hits.take(self.live_mask(hits.places))

    def live_mask(self, places: Places) -> Mask:
        """Which of these places are live rows."""
        hits = IndexHits(np.empty(0, np.int64), places)
        files, paths, live_files = hits.files, self._index.paths(), self.snapshot.files
        alive = np.zeros(len(places), np.bool_)
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        for number, here in zip(numbers, np.split(order, starts[1:]), strict=False):
            path = paths.get(int(number))
            if path is not None and path in live_files:
                alive[here] = ~deletion_vectors.deleted_mask(self.vector(path), hits.rows[here])
        return alive

    def paths(self) -> Mapping[int, str]:
        """The indexed files by number."""
        return self._index.paths()

    def vectors_with(self, hits: IndexHits) -> dict[str, BitMap]:
        """The files' vectors with these rows, by path; files whose vector has them already are left out."""
        paths, vectors = self._index.paths(), dict[str, BitMap]()
        for number in np.unique(hits.files):
            path = paths.get(int(number))
            # an entry of a removed file, not yet dropped by a merge
            if path is None or path not in self.snapshot.files:
                continue
            before = self.vector(path)
            after = before | BitMap(hits.rows[hits.files == number].astype(np.uint32))
            # otherwise all found rows were dead before
            if len(after) > len(before):
                vectors[path] = after
        return vectors

    def read(self, hits: IndexHits, schema: pa.Schema) -> pa.Table:
        """Read the rows at these places, which are sorted by file (`sort_by_file`), in this schema."""
        paths, parts = self._index.paths(), [schema.empty_table()]
        for number in np.unique(hits.files):
            path = paths[int(number)]
            with reading(self._name, path):
                rows = self._read_rows(path, schema, hits.rows[hits.files == number])
            parts.append(conform(rows, schema))
        return pa.concat_tables(parts)

    def _read_rows(self, path: str, schema: pa.Schema, numbers: Integers) -> pa.Table:
        copies = self.row_files
        if copies is None or not copies.columns >= set(schema.names):
            return data_files.read_rows(self._storage, path, schema.names, numbers)
        copied = self._read_copied(copies, path, schema, numbers)
        if copied is not None:
            return copied
        if copies.derived is None:
            return data_files.read_rows(self._storage, path, schema.names, numbers)
        rows = data_files.read_rows(self._storage, path, copies.derived.names, numbers)
        return copies.derived.compute(rows).select(schema.names)

    def _read_copied(self, copies: RowFiles, path: str, schema: pa.Schema, numbers: Integers) -> pa.Table | None:
        file = self.snapshot.files.get(path)
        if file is None:
            return None
        try:
            return read_copied(copies, self._storage, file, numbers, schema.names)
        except DamagedRowsError:
            self.notes.append(f"a copy of rows of {self._name} was damaged: it is made again")
            return None

    def add(self, files: Mapping[str, KeyBits]) -> None:
        """Add the fingerprints of files that a commit of ours added, in row order.

        After the commit, and after its vectors are set: a merge drops rows that `live_mask` calls dead, as it does
        those of uncommitted files. A kill before this leaves an index without these files, and the next process reads
        them.
        """
        try:
            self._index.add(files, self.live_mask)
        except (DamagedRunError, OSError) as error:
            # the commit is made: the next lookup rebuilds the index
            self._reset_index(error)

    def index_new_files(self) -> None:
        """Index files that other writers added, or that the index missed."""
        try:
            self._index_new_files()
        except (DamagedRunError, OSError) as error:
            self._reset_index(error)
            self._index_new_files()

    def _index_new_files(self) -> None:
        files = self.snapshot.files
        if gone := set(self._index.files) - files.keys():
            self._index.forget(gone)
            # of files that compaction has replaced, no row is asked for any more
            if self.row_files:
                self.row_files.keep(files)
        self._vectors = {path: vector for path, vector in self._vectors.items() if path in files}
        missing = [file for path, file in files.items() if path not in self._index.files]
        if missing:
            # concurrently: a merge would load them one by one
            map_concurrently(self.vector, [file.path for file in missing])
            groups = group_by_weight(missing, attrgetter("rows"), ROWS_READ_AT_ONCE)
            self._index.add_many(map(self._read_group, groups), self.live_mask)

    def _read_group(self, files: Sequence[DataFile]) -> dict[str, KeyBits]:
        paths = [file.path for file in files]
        return dict(zip(paths, map_concurrently(self._read_fingerprints, paths), strict=True))

    def _read_fingerprints(self, path: str) -> KeyBits:
        with reading(self._name, path):
            rows = self._read_indexed(path)
            return self._fingerprint_live(path, rows) if self._columns.of_live_rows else self._columns.fingerprint(rows)

    def _fingerprint_live(self, path: str, rows: pa.Table) -> KeyBits:
        """The fingerprints of a file's live rows; a deleted one has zeros, and nobody finds it."""
        live = np.flatnonzero(~deletion_vectors.deleted_mask(self.vector(path), np.arange(rows.num_rows)))
        bits, high, low = self._columns.fingerprint(rows.take(pa.array(live))), *np.zeros((2, rows.num_rows), np.uint64)
        high[live], low[live] = bits.high, bits.low
        return KeyBits(high, low)

    def _read_indexed(self, path: str) -> pa.Table:
        """The indexed columns of a whole file: of a small one from memory, where other readers find it, too."""
        copies, file = self.row_files, self.snapshot.files.get(path)
        if copies and file and copies.derived is None and copies.columns >= {*self._columns.names}:
            held = read_held(copies, self._storage, file)
            if held is not None:
                return held.select(self._columns.names)
        return data_files.read(self._storage, path, self._columns.names)

    def save(self, *, everything: bool) -> None:
        """Save the index, so that the next process need not read the files again."""
        snapshot = self.snapshot
        # a version without a commit id cannot be recognized later
        if self._open_index is not None and snapshot.commit_id is not None:
            self._open_index.save(VersionId(snapshot.version, snapshot.commit_id), everything=everything)

    def read_anew(self) -> None:
        """Forget the index, and read the keys of all files once more: rows were found to be others than it led to."""
        self._open_index = KeyIndex(self._folder, self._index_id)

    def _reset_index(self, error: Exception) -> None:
        """Start an empty index: the files on disk differ from what was written."""
        if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO, None):
            raise error
        self._open_index = KeyIndex(self._folder, self._index_id)
        self._add_note("was damaged")

    def _add_note(self, loss_reason: str) -> None:
        self.notes.append(f"the index of {self._name} {loss_reason}: its keys are read again")

    @property
    def _index(self) -> KeyIndex:
        """Opened on first use: only writers and views need it."""
        if self._open_index is None:
            self._open_index = KeyIndex.open(self._folder, self._index_id, self._is_past)
            if self._open_index.discard_reason:
                self._add_note(self._open_index.discard_reason)
        return self._open_index

    @property
    def _index_id(self) -> str:
        return self.snapshot.table_id + self._columns.id


def sort_by_file(hits: IndexHits) -> IndexHits:
    """The hits ordered by file and row."""
    return hits.take(np.argsort(hits.places, kind="stable"))
