"""The writer of one table: snapshot, deletion vectors and key index, kept consistent."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.columns.rows.row_fingerprints import identifying_columns, row_bits
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.errors import CdcError, DivergenceError, PreconditionError, RefusedError, TableLostError
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.core.text.plural import format_count
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta import statistics
from cdc.sinks.lake.delta.actions import Action, Remove
from cdc.sinks.lake.delta.damage import loss_reason
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog, LogDamagedError
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.index.key_index import VersionId
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.indexed_rows import IndexedColumns, IndexedRows, sort_by_file

MAX_CONFLICTS: Final = 20
"""Tries of a commit after other writers' commits, each on the new state."""


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
        self._index_folder = index_folder
        self.rows = self._index_rows()
        """Where every live row is, by its key, or by all its columns in a table without a key."""

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
                self.rows.forget_vectors()
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
        self.rows.set_vectors(vectors)
        self.rows.add(files)
        return version

    def vectors_deleting_keys(self, keys: KeyBits, new: Mask) -> dict[str, BitMap]:
        """The new vectors that delete the live rows of these keys, by file path.

        Raises DivergenceError when a key that is `new` has a live row: Postgres never inserts an existing key.
        """
        hits = self.rows.find(keys)
        there = hits.take(np.flatnonzero(new[hits.queries]))
        if len(there.queries) and (count := int(self.rows.live_mask(there.places).sum())):
            raise DivergenceError(
                f"{self.table.name}: {format_count(count, 'row')} inserted whose key ({', '.join(self.table.key)})"
                " the lake has already: another writer changed the lake, or the key was another one for a while or is"
                " not unique",
                "see `cdc verify`, then bootstrap the table again",
            )
        return self.rows.vectors_with(hits)

    def vectors_deleting_rows(self, rows: KeyBits) -> dict[str, BitMap]:
        """The new vectors that delete one live row per fingerprint, in a table without a key; by file path.

        Raises DivergenceError when the table has too few of them.
        """
        distinct, needed = _count_distinct(rows)
        hits = self.rows.find(distinct)
        hits = hits.take(self.rows.live_mask(hits.places))
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
        return self.rows.vectors_with(hits.take(np.flatnonzero(chosen)))

    def read_rows(self, keys: KeyBits, columns: Sequence[str]) -> pa.Table | None:
        """Read columns of the rows with these keys, in key order; None when a key has no row."""
        schema = pa.schema([field for field in arrow_schema(self.table) if field.name in columns])
        hits = sort_by_file(self.rows.find_live(keys))
        # np.unique sorts, which restores the order of the keys
        distinct, first = np.unique(hits.queries, return_index=True)
        return self.rows.read(hits, schema).take(pa.array(first)) if len(distinct) == len(keys) > 0 else None

    def add_columns(self, table: Table, lsn: Lsn, further: Mapping[str, str] = layout.NO_PROPERTIES) -> None:
        """Commit the table's new columns of a schema change at this LSN; existing rows lack them.

        `further`: properties of the table that come with them.
        """
        with self.lock:
            self._commit_columns(table, lsn, further)
            self.table = table
            self.statistics_columns = statistics.choose_columns(table.column_names, table.key)
            # the new column changes every row's fingerprint: open another index
            if not table.key:
                self.rows = self._index_rows()

    def _commit_columns(self, table: Table, lsn: Lsn, further: Mapping[str, str]) -> None:
        for _ in range(MAX_CONFLICTS):
            try:
                self.commit(layout.add_columns_actions(self.snapshot, table, lsn, further), "ADD COLUMNS", {}, {})
                return
            except ConflictError:
                self.refresh()
        raise RefusedError(f"other writers kept {table.name} busy", "stop what else writes to the lake")

    def save_index(self, *, everything: bool) -> None:
        """Save the index, so that the next process need not read the files again."""
        with self.lock:
            self.rows.save(everything=everything)

    def _index_rows(self) -> IndexedRows:
        # without a key, all columns make a row's fingerprint: a new column changes every fingerprint
        id = "" if self.table.key else f" with {len(self.table.columns)} columns"
        columns = IndexedColumns(identifying_columns(self.table), self._fingerprint, id)
        return IndexedRows(
            self.table.name, self.storage, columns, self._index_folder, lambda: self.snapshot, self._is_past
        )

    def _fingerprint(self, rows: pa.Table) -> KeyBits:
        return row_bits(rows if self.table.key else conform(rows, arrow_schema(self.table)), self.table)

    def _is_past(self, past: VersionId) -> bool:
        return past.version <= self.snapshot.version and self.log.commit_id(past.version) == past.commit


def _count_distinct(rows: KeyBits) -> tuple[KeyBits, Integers]:
    """The distinct fingerprints in order, and how often each occurs."""
    ordered = rows.take(rows.order())
    starts = np.flatnonzero(ordered.begins())
    return ordered.take(starts), np.diff(np.append(starts, len(ordered)))
