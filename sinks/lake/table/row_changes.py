"""The old and the new rows of the keys that commits changed, read from the files that the commits name.

A commit names each file's deletion vector before and after. Their difference says where the old rows lie, and they stay
in their files until vacuum (Delta protocol, "Deletion Vectors"). So before-images cost nothing when a batch is written.
Compaction changes no row, and is passed over: a row that it moved is known by its key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.actions import Action, Add, Remove
from cdc.sinks.lake.delta.damage import reading
from cdc.sinks.lake.delta.deletion_vectors import VectorCache, VectorDescriptor
from cdc.sinks.lake.storage.base import Storage, map_concurrently

_DIED, _BORN = 0, 1
_EVENT_BITS: Final = 1


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The changed rows of a table between two versions, in some of its columns, at most one of each side for a key.

    `old`: rows before, of keys that were changed or deleted. `new`: rows after, of keys that were changed or inserted.
    A table without a key has every deleted row in `old`, and every inserted one in `new`. Example: (1, "a") becomes
    (1, "b"), (2, "c") is inserted, and (3, "d") deleted:

        old         new
        (1, "a")    (1, "b")
        (3, "d")    (2, "c")
    """

    old: pa.Table
    new: pa.Table

    @property
    def nbytes(self) -> int:
        return int(self.old.nbytes + self.new.nbytes)


@dataclass(frozen=True, slots=True)
class _Event:
    """Rows of one file that died or were born in the same commit; `rank` orders the events of a key."""

    rank: int
    path: str
    rows: Integers


class ReadRows(Protocol):
    """Reads columns of some rows of a data file, in the order of `rows`."""

    def __call__(self, path: str, names: Sequence[str], rows: Integers) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that commits name, as they are read."""

    storage: Storage
    vectors: VectorCache
    read_rows: ReadRows


def read_row_changes(
    files: ChangedFiles, table: Table, commits: Sequence[Sequence[Action]], columns: Sequence[str]
) -> RowChanges:
    """Read these columns, and the key's, of all rows that successive commits changed.

    Raises HistoryLostError or TableLostError when a file is gone or damaged.
    """
    names = [name for name in table.column_names if name in columns or name in table.key]
    events = [event for number, actions in enumerate(commits) for event in _find_events(files, number, actions)]
    # each file once: events of many commits lie in the same file
    rows, ranks = _read_events(table, events, names, files.read_rows)
    return _net(rows, ranks, table)


def _find_events(files: ChangedFiles, number: int, actions: Sequence[Action]) -> Iterator[_Event]:
    changes = [action for action in actions if isinstance(action, Add | Remove) and action.data_change]
    added = {action.path: action for action in changes if isinstance(action, Add)}
    removed = {action.path: action for action in changes if isinstance(action, Remove)}
    for path in removed:
        before = _vector(files, removed[path].deletion_vector)
        after = _vector(files, added[path].deletion_vector) if path in added else _all_rows(files, path)
        yield from _event(number, _DIED, path, after - before)
        # nobody but a foreign RESTORE brings rows back
        yield from _event(number, _BORN, path, before - after)
    for path in added.keys() - removed.keys():
        yield from _event(number, _BORN, path, _all_rows(files, path) - _vector(files, added[path].deletion_vector))


def _event(number: int, kind: int, path: str, rows: BitMap) -> Iterator[_Event]:
    if rows:
        # a commit deletes first: an update is a death and a birth
        yield _Event((number << _EVENT_BITS) + kind, path, np.asarray(rows.to_array(), np.int64))


def _vector(files: ChangedFiles, vector: VectorDescriptor | None) -> BitMap:
    return files.vectors.read(vector) if vector else BitMap()


def _all_rows(files: ChangedFiles, path: str) -> BitMap:
    # `remove` actions have no statistics
    return BitMap(range(data_files.count_rows(files.storage, path)))


def _read_events(
    table: Table, events: Sequence[_Event], names: Sequence[str], read_rows: ReadRows
) -> tuple[pa.Table, Integers]:
    """The events' rows, and the rank of each."""
    schema = pa.schema([field for field in arrow_schema(table) if field.name in names])
    by_path = dict[str, list[_Event]]()
    for event in events:
        by_path.setdefault(event.path, []).append(event)

    def read(path: str) -> tuple[pa.Table, Integers]:
        rows = np.concatenate([event.rows for event in by_path[path]])
        ranks = np.concatenate([np.full(len(event.rows), event.rank) for event in by_path[path]])
        with reading(table.name, path):
            return conform(read_rows(path, names, rows), schema), ranks

    parts = map_concurrently(read, list(by_path))
    ranks = [np.empty(0, np.int64), *(part[1] for part in parts)]
    return pa.concat_tables([schema.empty_table(), *(part[0] for part in parts)]), np.concatenate(ranks)


def _net(rows: pa.Table, ranks: Integers, table: Table) -> RowChanges:
    if not table.key:
        died = np.asarray(ranks) & 1 == _DIED
        return RowChanges(rows.filter(pa.array(died)), rows.filter(pa.array(~died)))
    keys = row_bits(rows, table)
    order = np.lexsort((ranks, keys.low, keys.high))
    begins = keys.take(order).begins()
    first = order[begins]
    # the last event of a key comes before the next key's first
    last = order[np.append(begins[1:], True)] if len(order) else order
    # a key whose first event is a birth did not exist before; one whose last is a death does not exist now
    was, now = ranks[first] & 1 == _DIED, ranks[last] & 1 == _BORN
    both = was & now
    # a change of other columns than these is none here
    both[both] = _are_equal(rows.take(pa.array(first[both])), rows.take(pa.array(last[both])))
    return RowChanges(rows.take(pa.array(first[was & ~both])), rows.take(pa.array(last[now & ~both])))


def _are_equal(left: pa.Table, right: pa.Table) -> Mask:
    """Which rows are the same on both sides, bit by bit; lists and structs count as different."""
    same = np.ones(left.num_rows, np.bool_)
    for one, other in zip(left.columns, right.columns, strict=True):
        if pa.types.is_nested(one.type):
            return np.zeros(left.num_rows, np.bool_)
        are_null = pc.and_(one.is_null(), other.is_null())
        same &= np.asarray(pc.or_(pc.fill_null(pc.equal(_bits(one), _bits(other)), False), are_null))
    return same


def _bits(column: pa.ChunkedArray) -> pa.Array:
    """Floats as the integers of their bits: as numbers, the two zeros are equal, and NaN is not equal to itself."""
    array = column.combine_chunks()
    return (
        array.view(pa.int64() if array.type == pa.float64() else pa.int32())
        if pa.types.is_floating(array.type)
        else array
    )
