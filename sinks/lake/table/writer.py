"""One table of the lake as its writer knows it: the log's state, the deletion vectors, the index of keys."""

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
from sinks.lake.delta.damage import files_of, why
from sinks.lake.delta.log import Conflict, DeltaLog, LogDamagedError
from sinks.lake.delta.snapshot import Action, DataFile, State, bounded_groups
from sinks.lake.index.key_index import KeyIndex, Past
from sinks.lake.index.run_files import DamagedRunError
from sinks.lake.index.sorted_runs import Hits, Places
from sinks.lake.storage.base import Storage, at_once

CONFLICTS: Final = 20
"""How often a commit is tried again behind other writers, each time on the table as they left it."""
ROWS_READ_AT_ONCE: Final = 4_000_000
"""Of so many the keys are held in memory, when an index is made anew."""


class LiveTable:
    """Where every live row of a table lies; whoever changes it holds `lock` from the look to the commit."""

    def __init__(self, table: Table, storage: Storage, log: DeltaLog, index_folder: Path) -> None:
        self.table = table
        self.storage = storage
        self.log = log
        self.lock = threading.RLock()
        self.swept = float("-inf")
        """When the folder was last looked through for files that no commit names."""
        self.vector_bytes = 0
        """What the vectors of the last commit took."""
        self.bounded = statistics.indexed(table.column_names, table.key)
        self._vectors: dict[str, BitMap] = {}
        self._index_folder = index_folder
        self._opened: KeyIndex | None = None
        self.told: list[str] = []
        """What there is to say of the index, once."""

    @property
    def state(self) -> State:
        """The table as it was last read or written."""
        return self.log.state

    def refresh(self) -> State:
        """The table as it stands now; raises as `check` does."""
        with self.lock:
            try:
                found = self.log.refresh()
            except (LogDamagedError, PreconditionError) as error:
                raise self._lost(error) from error
            # a file gets a new vector by being removed and added
            if any("remove" in action for actions in found for action in actions):
                self._vectors = {}
            self.check()
            return self.log.state

    def check(self) -> None:
        """Raise TableLostError when others have changed rows, or have made a table of it that we cannot write."""
        if self.log.forbidden:
            raise self._lost(self.log.forbidden)
        if self.log.changed_by:
            raise TableLostError(self.table.name, self.log.changed_by)

    def _lost(self, error: CdcError) -> TableLostError:
        return TableLostError(self.table.name, why(error))

    def commit(
        self, actions: Sequence[Action], operation: str, vectors: Mapping[str, BitMap], files: Mapping[str, KeyBits]
    ) -> int:
        """Commit actions that give these files these vectors, and bring `files` with rows of these keys.

        Raises Conflict when another writer was there first, TableLostError when the table is gone or was put back.
        """
        before = self.state.version
        try:
            version = self.log.commit(actions, operation)
        except FileNotFoundError:
            raise TableLostError(
                self.table.name, f"version {before} is gone from the lake: removed, or put back to an older state"
            ) from None
        self._vectors |= vectors
        # behind the commit and the vectors: a merge drops what `live` calls dead, as rows of files in no table are.
        # Killed before this, a process leaves an index without these files, which the next one reads
        try:
            self._index.add(files, self.live)
        except (DamagedRunError, OSError) as error:
            # the commit is made: whoever needs the index next reads it again
            self._throw_away(error)
        return version

    def vector(self, path: str) -> BitMap:
        """The rows of a file that are gone."""
        if path not in self._vectors:
            vector = self.state.files[path].vector
            with files_of(self.table.name, vector.path if vector and vector.in_file else path):
                self._vectors[path] = deletion_vectors.read(vector, self.storage) if vector else BitMap()
        return self._vectors[path]

    def marked(self, keys: KeyBits, new: Mask) -> dict[str, BitMap]:
        """The vectors of the files in which live rows of these keys lie, with those rows in them.

        Raises DivergenceError when a key that is `new` has a live row: Postgres inserts no key that it has.
        """
        hits = self._found(keys)
        there = hits.take(np.flatnonzero(new[hits.asked]))
        if len(there.asked) and (count := int(self.live(there.places).sum())):
            raise DivergenceError(
                f"{self.table.name}: {format_count(count, 'row')} inserted whose key ({', '.join(self.table.key)})"
                " the lake has already; it was another one for a while, or tells no rows apart, or something else has"
                " written to the lake",
                "see `cdc verify`, then bootstrap the table again",
            )
        return self._vectors_with(hits)

    def _vectors_with(self, hits: Hits) -> dict[str, BitMap]:
        paths, found = self._index.paths(), dict[str, BitMap]()
        for number in np.unique(hits.files):
            path = paths.get(int(number))
            # an entry of a file that is gone, which no merge has come by yet
            if path is None or path not in self.state.files:
                continue
            was = self.vector(path)
            now = was | BitMap(hits.rows[hits.files == number].astype(np.uint32))
            # else all that was found was dead before
            if len(now) > len(was):
                found[path] = now
        return found

    def taken(self, rows: KeyBits) -> dict[str, BitMap]:
        """The vectors of the files of a table without a key, from which one live row is taken for each of these.

        Raises DivergenceError when the table has fewer of them.
        """
        distinct, needed = _counted(rows)
        hits = self._found(distinct)
        hits = hits.take(self.live(hits.places))
        hits = hits.take(np.lexsort((hits.places, hits.asked)))
        firsts = np.searchsorted(hits.asked, np.arange(len(distinct)))
        chosen = np.arange(len(hits.asked)) - firsts[hits.asked] < needed[hits.asked]
        if int(chosen.sum()) < len(rows):
            raise DivergenceError(
                f"{self.table.name}: {format_count(len(rows) - int(chosen.sum()), 'row')} to go that the lake does not"
                " have",
                "something else has written to the lake: see `cdc verify`, then bootstrap the table again",
            )
        return self._vectors_with(hits.take(np.flatnonzero(chosen)))

    def rows_of(self, keys: KeyBits, columns: Sequence[str]) -> pa.Table | None:
        """These columns of the rows that keys have, in the order of the keys; None when one of them has no row."""
        schema = pa.schema([field for field in arrow_schema(self.table) if field.name in columns])
        hits = self._found(keys)
        hits = hits.take(self.live(hits.places))
        paths, parts, asked = self._index.paths(), [], []
        for number in np.unique(hits.files):
            here = hits.files == number
            with files_of(self.table.name, paths[int(number)]):
                found = data_files.read_rows(self.storage, paths[int(number)], columns, hits.rows[here])
            parts.append(conform(found, schema))
            asked.append(hits.asked[here])
        places = np.concatenate(asked) if asked else np.empty(0, np.int64)
        # it sorts, which brings the rows into the order of the keys
        distinct, first = np.unique(places, return_index=True)
        return pa.concat_tables(parts).take(pa.array(first)) if len(distinct) == len(keys) > 0 else None

    def live(self, places: Places) -> Mask:
        """Which rows are still in the table."""
        hits = Hits(np.empty(0, np.int64), places)
        files, paths = hits.files, self._index.paths()
        alive = np.zeros(len(places), np.bool_)
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        for number, here in zip(numbers, np.split(order, starts[1:]), strict=False):
            path = paths.get(int(number))
            if path is not None and path in self.state.files:
                alive[here] = ~contained(self.vector(path), hits.rows[here])
        return alive

    def _found(self, keys: KeyBits) -> Hits:
        """All entries of these keys, dead rows among them; of an index that is damaged, the keys are read again."""
        try:
            return self._index.find(keys)
        except (DamagedRunError, OSError) as error:
            self._throw_away(error)
        self.take_in_files()
        return self._index.find(keys)

    def _throw_away(self, error: Exception) -> None:
        """Have no index: what lies on the disk is not what was written there."""
        if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO, None):
            raise error
        self._opened = KeyIndex(self._index_folder, self._index_id)
        self._tell("was damaged")

    def _tell(self, why: str) -> None:
        self.told.append(f"the index of {self.table.name} {why}: its keys are read again")

    def take_in_files(self) -> None:
        """Let the index know the files that came by other hands, or while it was not there."""
        try:
            self._take_in_files()
        except (DamagedRunError, OSError) as error:
            self._throw_away(error)
            self._take_in_files()

    def _take_in_files(self) -> None:
        files = self.state.files
        self._index.forget(set(self._index.files) - files.keys())
        self._vectors = {path: vector for path, vector in self._vectors.items() if path in files}
        missing = [file for path, file in files.items() if path not in self._index.files]
        if missing:
            # at once, since a merge would ask for one after another
            at_once(self.vector, [file.path for file in missing])
            groups = bounded_groups(missing, attrgetter("rows"), ROWS_READ_AT_ONCE)
            self._index.add_many(map(self._keys_of, groups), self.live)

    def widen(self, table: Table, lsn: Lsn) -> None:
        """Commit that the table has these columns, since a schema change at this LSN; rows from before lack them."""
        with self.lock:
            self._describe(table, lsn)
            self.table = table
            self.bounded = statistics.indexed(table.column_names, table.key)
            if not table.key:
                self._opened = None

    def _describe(self, table: Table, lsn: Lsn) -> None:
        for _ in range(CONFLICTS):
            try:
                self.commit(layout.widened(self.state, table, lsn), "ADD COLUMNS", {}, {})
                return
            except Conflict:
                self.refresh()
        raise RefusedError(f"other writers kept {table.name} busy", "stop what else writes to the lake")

    def save_index(self, *, everything: bool) -> None:
        """Write the index down, so that the next process need not read the files again."""
        with self.lock:
            # of a version without an id nobody could say whether it is still the same: such an index is read again
            if self._opened is not None and self.state.commit is not None:
                self._opened.save(Past(self.state.version, self.state.commit), everything=everything)

    @property
    def _index(self) -> KeyIndex:
        """The index is opened by who writes; those that only ask do without."""
        if self._opened is None:
            self._opened = KeyIndex.open(self._index_folder, self._index_id, self._is_past)
            if self._opened.lost:
                self._tell(self._opened.lost)
        return self._opened

    @property
    def _index_id(self) -> str:
        # without a key, rows are told apart by all of their columns: with another column, each has other bits
        columns = "" if self.table.key else f" with {len(self.table.columns)} columns"
        return self.state.table_id + columns

    def _is_past(self, past: Past) -> bool:
        """Did the table go through this very version?"""
        return past.version <= self.state.version and self.log.commit_id(past.version) == past.commit

    def _keys_of(self, files: Sequence[DataFile]) -> dict[str, KeyBits]:
        paths = [file.path for file in files]
        return dict(zip(paths, at_once(self._keys, paths), strict=True))

    def _keys(self, path: str) -> KeyBits:
        with files_of(self.table.name, path):
            found = data_files.read(self.storage, path, identifying_columns(self.table))
        return row_bits(found if self.table.key else conform(found, arrow_schema(self.table)), self.table)


def _counted(rows: KeyBits) -> tuple[KeyBits, Integers]:
    """The different ones of some bits, in order, and how often each is there."""
    ordered = rows.take(rows.order())
    starts = np.flatnonzero(ordered.begins())
    return ordered.take(starts), np.diff(np.append(starts, len(ordered)))


def contained(vector: BitMap, rows: Integers) -> Mask:
    """Which of these rows are in the vector."""
    if not vector:
        return np.zeros(len(rows), np.bool_)
    gone = np.asarray(vector.to_array(), np.int64)
    at = np.minimum(np.searchsorted(gone, rows), len(gone) - 1)
    found: Mask = gone[at] == rows
    return found
