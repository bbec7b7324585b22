"""A table at one version, whose rows are found by the values of columns: secondary indexes.

An index is of the same kind as the index of keys, and holds 24 bytes a row. It is never of another version than the one
that is read: an entry says where a row is, and the version's deletion vectors say whether it lives there.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.columns.rows.join_fingerprints import join_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.actions import Action
from cdc.sinks.lake.delta.deletion_vectors import VectorCache
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot
from cdc.sinks.lake.index.key_index import VersionId
from cdc.sinks.lake.index.sorted_runs import ROW_BITS, IndexHits
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.bounds import TooManyRowsError, measure_changes, measure_rows
from cdc.sinks.lake.table.copied_rows import read_copied
from cdc.sinks.lake.table.indexed_rows import IndexedColumns, IndexedRows, sort_by_file
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.sinks.lake.table.row_changes import ChangedFiles, RowChanges, read_row_changes
from cdc.sinks.lake.table.row_files import DamagedRowsError, RowFiles


class ComputedColumn(Protocol):
    """A column that is computed from others of a row, whatever rows are beside it."""

    @property
    def inputs(self) -> Sequence[str]:
        """The names of these columns."""

    def compute(self, rows: pa.Table) -> pa.Array:
        """The column of these rows, which have the inputs."""


ROW: Final = "#row"
"""A column that tells the rows of a table apart, as long as its `TableLookup` stands at one version."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit behind the present version: the version that it makes, and the bytes of the rows that it changes."""

    actions: Sequence[Action]
    snapshot: Snapshot
    changed_bytes: int


ENTRY_BYTES: Final = 24
"""Of an index; they are read before it is known which of them live."""


class TableLookup:
    """Reads one table at the version of a cut, and moves on from cut to cut.

    `folder` keeps the indexes between processes. `most_bytes`: of the rows that one look finds.
    """

    def __init__(
        self, table: Table, storage: Storage, log: DeltaLog, folder: Path, most_bytes: int = sys.maxsize
    ) -> None:
        self.table = table
        """As it is at this version."""
        self._storage = storage
        self._log = log
        self._folder = folder
        self._most_bytes = most_bytes
        self.snapshot = log.snapshot
        self._ahead: list[_Commit] = []
        self._growth = 1.0
        """How many bytes in memory one in a file has been, at most."""
        self._indexes: dict[tuple[str, ...], IndexedRows] = {}
        self._file_numbers: dict[str, int] = {}
        self._vectors = VectorCache(storage)
        self.row_files: RowFiles | None = None
        self.computed: dict[str, ComputedColumn] = {}
        """By name: further columns by which rows can be found."""

    def copy_rows(self, columns: Sequence[str]) -> None:
        """Keep copies of these columns of large files from now on, from which a few rows are read quickly.

        And of the key's, which all changes are read with.
        """
        whole, names = arrow_schema(self.table), {*columns, *self.table.key}
        schema = pa.schema([field for field in whole if field.name in names])
        if self.row_files is None or self.row_files.schema != schema:
            self.row_files = RowFiles(self._folder / "rows", schema)
            for index in self._indexes.values():
                index.row_files = self.row_files

    def measure_changes(self, version: int) -> int:
        """The bytes of the rows that change up to a later version.

        Raises HistoryLostError when the log no longer has the versions in between.
        """
        self._look_ahead(version)
        in_files = sum(commit.changed_bytes for commit in self._ahead if commit.snapshot.version <= version)
        return int(in_files * self._growth)

    def advance(self, version: int, columns: Sequence[str], most_bytes: int = sys.maxsize) -> RowChanges | None:
        """Move on to a later version; returns the changes of these columns since, None if they are more than that.

        Raises HistoryLostError when the log no longer has the versions in between.
        """
        self._keep_vectors()
        changed, files = self.measure_changes(version), dict(self.snapshot.files)
        commits = [commit for commit in self._ahead if commit.snapshot.version <= version]
        self._ahead = self._ahead[len(commits) :]
        self._stand_at(commits[-1].snapshot if commits else self.snapshot)
        if changed > most_bytes:
            return None
        read = partial(self._read_rows, {**files, **self.snapshot.files})
        changed_files = ChangedFiles(self._storage, self._vectors, read)
        changes = read_row_changes(changed_files, self.table, [commit.actions for commit in commits], columns)
        self._growth = max(self._growth, changes.nbytes * self._growth / max(changed, 1))
        return changes

    def _look_ahead(self, version: int) -> None:
        """Read the commits up to a version, once."""
        last = self._ahead[-1].snapshot if self._ahead else self.snapshot
        for actions in self._log.all_actions(range(last.version + 1, version + 1)):
            before, last = last, last.with_commit(last.version + 1, actions)
            self._ahead.append(_Commit(actions, last, measure_changes(before, last, actions)))

    def _stand_at(self, snapshot: Snapshot) -> None:
        if snapshot.metadata is not self.snapshot.metadata:
            # a column that was added is read from here on
            self.table = layout.table_of(snapshot) or self.table
        self.snapshot = snapshot
        # rows of two versions are not told apart by `ROW`, and most of the old files are gone
        self._file_numbers.clear()
        self._forget_vectors()

    def _read_rows(self, files: Mapping[str, DataFile], path: str, names: Sequence[str], rows: Integers) -> pa.Table:
        """Read changed rows: a few random ones of a large file, from its copy if there is one."""
        copies, file = self.row_files, files.get(path)
        if copies and file and copies.columns >= set(names):
            # a damaged copy is made again
            with suppress(DamagedRowsError):
                found = read_copied(copies, self._storage, file, rows, names)
                if found is not None:
                    return found
        return data_files.read_rows(self._storage, path, names, rows)

    def stand_at(self, snapshot: Snapshot) -> None:
        """Read this version from now on."""
        if snapshot.version != self.snapshot.version:
            self._ahead = []
            self._stand_at(snapshot)
            self._keep_vectors()

    def _forget_vectors(self) -> None:
        for index in self._indexes.values():
            # a new vector arrives as `remove` and `add` of its file
            index.forget_vectors()

    def _keep_vectors(self) -> None:
        self._vectors.keep(file.vector for file in self.snapshot.files.values())

    def find(self, columns: Sequence[str], values: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        """The columns `names` of the rows whose `columns` have one of these combinations of values, and `ROW`.

        Rows may come that have other values, of equal fingerprints: all rows with a null have the same. Raises
        TooManyRowsError, before it reads them.
        """
        index, keys = self._index(tuple(columns)), join_bits(values)
        index.index_new_files()
        self._check_size(index.estimate(keys) * ENTRY_BYTES, columns)
        schema = pa.schema([field for field in arrow_schema(self.table) if field.name in names])
        hits = sort_by_file(index.find_live(keys))
        paths, (numbers, counts) = index.paths(), np.unique(hits.files, return_counts=True)
        found = zip(numbers.tolist(), counts.tolist(), strict=True)
        self._check_size(sum(measure_rows(self.snapshot.files.get(paths[file]), rows) for file, rows in found), columns)
        return index.read(hits, schema).append_column(ROW, pa.array(self._row_numbers(index, hits)))

    def pin(self) -> PinnedTable:
        """The table as it is at this version, whatever this lookup moves on to."""
        return PinnedTable(self.table, self.snapshot, self._storage)

    def _check_size(self, size: int, columns: Sequence[str]) -> None:
        if size * self._growth > self._most_bytes:
            where = " and ".join(columns)
            raise TooManyRowsError(f"rows of {self.table.name} with the same {where} are too many for one process")

    def _row_numbers(self, index: IndexedRows, hits: IndexHits) -> Integers:
        """Number rows by file and place; each index has its own numbers of files."""
        paths, files = index.paths(), hits.files
        numbers = np.empty(len(files), np.int64)
        for file in np.unique(files):
            number = self._file_numbers.setdefault(paths[int(file)], len(self._file_numbers))
            numbers[files == file] = number
        return (numbers << int(ROW_BITS)) + hits.rows

    def _index(self, columns: tuple[str, ...]) -> IndexedRows:
        if columns not in self._indexes:
            folder = self._folder / _folder_name(columns)
            self._indexes[columns] = IndexedRows(
                self.table.name, self._storage, self._indexed(columns), folder, lambda: self.snapshot, self._is_past
            )
            self._indexes[columns].row_files = self.row_files
            self._indexes[columns].read_vector = self._vectors.read
        return self._indexes[columns]

    def _indexed(self, columns: tuple[str, ...]) -> IndexedColumns:
        read = dict.fromkeys(each for name in columns for each in self._inputs(name))
        return IndexedColumns(
            [*read],
            lambda rows: join_bits([self._value(rows, name) for name in columns]),
            f" by {', '.join(columns)}",
            of_live_rows=any(name in self.computed for name in columns),
        )

    def _inputs(self, name: str) -> Sequence[str]:
        return self.computed[name].inputs if name in self.computed else [name]

    def _value(self, rows: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
        return self.computed[name].compute(rows) if name in self.computed else rows[name]

    def _is_past(self, past: VersionId) -> bool:
        """Whether this version is in the table's history."""
        return past.version <= self.snapshot.version and self._log.commit_id(past.version) == past.commit

    def save(self) -> None:
        """Save the indexes, so that the next process need not read the files again."""
        for index in self._indexes.values():
            index.save(everything=True)
        if self.row_files:
            self.row_files.keep(self.snapshot.files)
            self.row_files.close()


def _folder_name(columns: Sequence[str]) -> str:
    """The columns' names, or a digest of those that are too long for a file's name."""
    name = layout.encode_name(".".join(columns))
    return name if len(name) <= LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


LONGEST_NAME: Final = 100
"""Of a folder: file systems take 255 bytes."""
