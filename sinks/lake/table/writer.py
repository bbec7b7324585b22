"""The writer of one table: snapshot, deletion vectors and key index, kept consistent."""

import errno
import threading
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.columns.rows.row_fingerprints import identifying_columns, row_bits
from cdc.columns.values.arrow_types import arrow_schema, conform
from cdc.core.errors import CdcError, DivergenceError, PreconditionError, RefusedError, TableLostError
from cdc.core.plural import format_count
from cdc.core.position import Lsn
from cdc.core.table import Table
from sinks.lake import layout
from sinks.lake.delta import data_files, deletion_vectors, statistics
from sinks.lake.delta.actions import Action, Remove
from sinks.lake.delta.damage import loss_reason, reading
from sinks.lake.delta.log import ConflictError, DeltaLog, LogDamagedError
from sinks.lake.delta.snapshot import DataFile, Snapshot, group_by_weight
from sinks.lake.index.key_index import KeyIndex, VersionId
from sinks.lake.index.run_files import DamagedRunError
from sinks.lake.index.sorted_runs import IndexHits, Places
from sinks.lake.storage.base import Storage, map_concurrently

MAX_CONFLICTS: Final = 20
"""Tries of a commit after other writers' commits, each on the new state."""
ROWS_READ_AT_ONCE: Final = 4_000_000
"""Rows whose keys are in memory while an index is rebuilt."""


class TableWriter:
    """Knows where every live row of a table is. A caller that changes the table holds `lock` from lookup to commit."""

    def __init__(self, table: Table, storage: Storage, log: DeltaLog, index_folder: Path) -> None:
        self.table = table
        self.storage = storage
        self.log = log
        # reentrant: a commit refreshes, and maintenance commits, under the lock
        self.lock = threading.RLock()
        self.orphans_deleted_at = float("-inf")
        """When the folder was last searched for files that no commit names."""
        self.vector_bytes = 0
        """Size of the last commit's vectors."""
        self.statistics_columns = statistics.choose_columns(table.column_names, table.key)
        self._vectors: dict[str, BitMap] = {}
        self._index_folder = index_folder
        self._open_index: KeyIndex | None = None
        self.notes: list[str] = []
        """Notes about the index, for the log, each given once."""

    @property
    def snapshot(self) -> Snapshot:
        """The table as it was last read or written."""
        return self.log.snapshot

    def refresh(self) -> Snapshot:
        """Read other writers' commits; raises as `check` does."""
        with self.lock:
            try:
                commits = self.log.refresh()
            except (LogDamagedError, PreconditionError) as error:
                raise self._lost_error(error) from error
            # a new vector arrives as `remove` and `add` of its file
            if any(isinstance(action, Remove) for actions in commits for action in actions):
                self._vectors = {}
            self.check()
            return self.log.snapshot

    def check(self) -> None:
        """Raise TableLostError when others changed rows, or gave the table a feature that we cannot write."""
        if self.log.write_blocker:
            raise self._lost_error(self.log.write_blocker)
        if self.log.row_change:
            raise TableLostError(self.table.name, self.log.row_change)

    def _lost_error(self, error: CdcError) -> TableLostError:
        return TableLostError(self.table.name, loss_reason(error))

    def commit(
        self, actions: Sequence[Action], operation: str, vectors: Mapping[str, BitMap], files: Mapping[str, KeyBits]
    ) -> int:
        """Commit actions that set `vectors` and add `files`, the latter with their keys; returns the version.

        Raises ConflictError when another writer was first, TableLostError when the table is gone or was put back.
        """
        before = self.snapshot.version
        try:
            version = self.log.commit(actions, operation)
        except FileNotFoundError:
            raise TableLostError(
                self.table.name, f"version {before} is gone from the lake: removed, or put back to an older state"
            ) from None
        self._vectors |= vectors
        # after commit and vectors: a merge drops rows that `live_mask` calls dead, as it does those of uncommitted
        # files. A kill before this leaves an index without these files, and the next process reads them
        try:
            self._index.add(files, self.live_mask)
        except (DamagedRunError, OSError) as error:
            # the commit is made: the next lookup rebuilds the index
            self._reset_index(error)
        return version

    def vector(self, path: str) -> BitMap:
        """The deleted rows of a file."""
        if path not in self._vectors:
            vector = self.snapshot.files[path].vector
            with reading(self.table.name, vector.path if vector and vector.in_file else path):
                self._vectors[path] = deletion_vectors.read(vector, self.storage) if vector else BitMap()
        return self._vectors[path]

    def vectors_deleting_keys(self, keys: KeyBits, new: Mask) -> dict[str, BitMap]:
        """The new vectors that delete the live rows of these keys, by file path.

        Raises DivergenceError when a key that is `new` has a live row: Postgres never inserts an existing key.
        """
        hits = self._find(keys)
        there = hits.take(np.flatnonzero(new[hits.queries]))
        if len(there.queries) and (count := int(self.live_mask(there.places).sum())):
            raise DivergenceError(
                f"{self.table.name}: {format_count(count, 'row')} inserted whose key ({', '.join(self.table.key)})"
                " the lake has already: another writer changed the lake, or the key was another one for a while or is"
                " not unique",
                "see `cdc verify`, then bootstrap the table again",
            )
        return self._vectors_with(hits)

    def _vectors_with(self, hits: IndexHits) -> dict[str, BitMap]:
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

    def vectors_deleting_rows(self, rows: KeyBits) -> dict[str, BitMap]:
        """The new vectors that delete one live row per fingerprint, in a table without a key; by file path.

        Raises DivergenceError when the table has too few of them.
        """
        distinct, needed = _count_distinct(rows)
        hits = self._find(distinct)
        hits = hits.take(self.live_mask(hits.places))
        hits = hits.take(np.lexsort((hits.places, hits.queries)))
        # hits are sorted by query: number the hits of each query, and take as many as rows are to be deleted
        firsts = np.searchsorted(hits.queries, np.arange(len(distinct)))
        chosen = np.arange(len(hits.queries)) - firsts[hits.queries] < needed[hits.queries]
        if short := len(rows) - int(chosen.sum()):
            missing = format_count(short, "row")
            raise DivergenceError(
                f"{self.table.name}: cannot delete {missing}: the lake does not have {'it' if short == 1 else 'them'}",
                "something else has written to the lake: see `cdc verify`, then bootstrap the table again",
            )
        return self._vectors_with(hits.take(np.flatnonzero(chosen)))

    def read_rows(self, keys: KeyBits, columns: Sequence[str]) -> pa.Table | None:
        """Read columns of the rows with these keys, in key order; None when a key has no row."""
        schema = pa.schema([field for field in arrow_schema(self.table) if field.name in columns])
        hits = self._find(keys)
        hits = hits.take(self.live_mask(hits.places))
        paths, parts, queries = self._index.paths(), [], []
        for number in np.unique(hits.files):
            here = hits.files == number
            with reading(self.table.name, paths[int(number)]):
                rows = data_files.read_rows(self.storage, paths[int(number)], columns, hits.rows[here])
            parts.append(conform(rows, schema))
            queries.append(hits.queries[here])
        places = np.concatenate(queries) if queries else np.empty(0, np.int64)
        # np.unique sorts, which restores the order of the keys
        distinct, first = np.unique(places, return_index=True)
        return pa.concat_tables(parts).take(pa.array(first)) if len(distinct) == len(keys) > 0 else None

    def live_mask(self, places: Places) -> Mask:
        """Which of these places are live rows."""
        hits = IndexHits(np.empty(0, np.int64), places)
        files, paths = hits.files, self._index.paths()
        alive = np.zeros(len(places), np.bool_)
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        for number, here in zip(numbers, np.split(order, starts[1:]), strict=False):
            path = paths.get(int(number))
            if path is not None and path in self.snapshot.files:
                alive[here] = ~deletion_vectors.deleted_mask(self.vector(path), hits.rows[here])
        return alive

    def _find(self, keys: KeyBits) -> IndexHits:
        """Find all entries of these keys, dead rows included; rebuilds a damaged index."""
        try:
            return self._index.find(keys)
        except (DamagedRunError, OSError) as error:
            self._reset_index(error)
        self.index_new_files()
        return self._index.find(keys)

    def _reset_index(self, error: Exception) -> None:
        """Start an empty index: the files on disk differ from what was written."""
        if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO, None):
            raise error
        self._open_index = KeyIndex(self._index_folder, self._index_id)
        self._add_note("was damaged")

    def _add_note(self, loss_reason: str) -> None:
        self.notes.append(f"the index of {self.table.name} {loss_reason}: its keys are read again")

    def index_new_files(self) -> None:
        """Index files that other writers added, or that the index missed."""
        try:
            self._index_new_files()
        except (DamagedRunError, OSError) as error:
            self._reset_index(error)
            self._index_new_files()

    def _index_new_files(self) -> None:
        files = self.snapshot.files
        self._index.forget(set(self._index.files) - files.keys())
        self._vectors = {path: vector for path, vector in self._vectors.items() if path in files}
        missing = [file for path, file in files.items() if path not in self._index.files]
        if missing:
            # concurrently: a merge would load them one by one
            map_concurrently(self.vector, [file.path for file in missing])
            groups = group_by_weight(missing, attrgetter("rows"), ROWS_READ_AT_ONCE)
            self._index.add_many(map(self._read_group, groups), self.live_mask)

    def add_columns(self, table: Table, lsn: Lsn) -> None:
        """Commit the table's new columns of a schema change at this LSN; existing rows lack them."""
        with self.lock:
            self._commit_columns(table, lsn)
            self.table = table
            self.statistics_columns = statistics.choose_columns(table.column_names, table.key)
            # the new column changes every row's fingerprint: open another index
            if not table.key:
                self._open_index = None

    def _commit_columns(self, table: Table, lsn: Lsn) -> None:
        for _ in range(MAX_CONFLICTS):
            try:
                self.commit(layout.add_columns_actions(self.snapshot, table, lsn), "ADD COLUMNS", {}, {})
                return
            except ConflictError:
                self.refresh()
        raise RefusedError(f"other writers kept {table.name} busy", "stop what else writes to the lake")

    def save_index(self, *, everything: bool) -> None:
        """Save the index, so that the next process need not read the files again."""
        with self.lock:
            # a version without a commit id cannot be recognized later
            if self._open_index is not None and self.snapshot.commit_id is not None:
                self._open_index.save(VersionId(self.snapshot.version, self.snapshot.commit_id), everything=everything)

    @property
    def _index(self) -> KeyIndex:
        """Opened on first use: only writers need it."""
        if self._open_index is None:
            self._open_index = KeyIndex.open(self._index_folder, self._index_id, self._is_past)
            if self._open_index.discard_reason:
                self._add_note(self._open_index.discard_reason)
        return self._open_index

    @property
    def _index_id(self) -> str:
        # without a key, all columns make a row's fingerprint: a new column changes every fingerprint
        columns = "" if self.table.key else f" with {len(self.table.columns)} columns"
        return self.snapshot.table_id + columns

    def _is_past(self, past: VersionId) -> bool:
        return past.version <= self.snapshot.version and self.log.commit_id(past.version) == past.commit

    def _read_group(self, files: Sequence[DataFile]) -> dict[str, KeyBits]:
        paths = [file.path for file in files]
        return dict(zip(paths, map_concurrently(self._read_keys, paths), strict=True))

    def _read_keys(self, path: str) -> KeyBits:
        with reading(self.table.name, path):
            rows = data_files.read(self.storage, path, identifying_columns(self.table))
        return row_bits(rows if self.table.key else conform(rows, arrow_schema(self.table)), self.table)


def _count_distinct(rows: KeyBits) -> tuple[KeyBits, Integers]:
    """The distinct fingerprints in order, and how often each occurs."""
    ordered = rows.take(rows.order())
    starts = np.flatnonzero(ordered.begins())
    return ordered.take(starts), np.diff(np.append(starts, len(ordered)))
