"""The change feed of the lake: whole rows by key, from the files that the lake's commits have changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.rows.digest import Digest
from cdc.columns.rows.held import Held
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, key_bits
from cdc.columns.rows.row_prints import StoredRows
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import PreconditionError, TableStoppedError
from cdc.core.follower import Follower
from cdc.core.position import Position
from cdc.core.table import Table, TableName


@dataclass(frozen=True, slots=True)
class FeedRows:
    """Changes of one table, at most one for a key: `rows` (all columns) exist now, `gone` (key columns) are deleted."""

    rows: pa.Table
    gone: pa.Table

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.gone.nbytes)

    def __len__(self) -> int:
        return int(self.rows.num_rows + self.gone.num_rows)


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The changes of one or more cuts: for every changed table, parts that share no key.

    Each iteration reads the parts again, so a failed write can be repeated with the same batch. `committed_ms`: the
    commit time of the last cut, in milliseconds since 1970; None where nobody knows it.
    """

    tables: Mapping[TableName, Iterable[FeedRows]]
    committed_ms: int | None = None


class Readable(Protocol):
    """A follower that `cdc verify` can read."""

    def rows(self, table: Table) -> DataFrame:
        """The table as the follower holds it now: the table's columns, with the types of `row_type`."""

    def digest(self, table: Table) -> Digest:
        """The digest of the same rows, computed where they are read."""

    def stored(self, table: Table) -> Iterator[StoredRows]:
        """The same rows, read in this process, in parts: each with its name, as `Held.identify` makes it."""

    def held(self, table: Table) -> Held | None:
        """What it holds of the table, and as which `rows` and `digest` see it; None if that is the table itself."""


class FedFollower(Follower[TableCopy, FeedBatch], Readable, Protocol):
    """A follower behind the lake: it loads `TableCopy`s and applies `FeedBatch`es.

    A table that it cannot hold stops alone: `prepare`, `load` and `apply` do not raise, but store the reason and go on
    with the other tables. A stopped table has no bookmark, since it misses changes; that is stored before the position
    moves. A later successful `load` starts it again. `apply` skips stopped tables, and stops tables without a copy.
    """

    def stops(self) -> Mapping[TableName, TableStoppedError]:
        """The stopped tables of this follower, each with the reason."""

    def remarks(self) -> Sequence[PreconditionError]:
        """What it could not take since the last call though no table stops, one line each."""

    def close(self) -> None:
        """Close the connections; the next call opens them again."""

    def furthest(self) -> Position | None:
        """The furthest position that a row may have reached: `position`, or that of a batch which was cut off.

        A lake that was put back since may have lost the batch, and what a later cut has does not tell of all its rows.
        """

    def take_over(self) -> None:
        """Become the one who writes, where the store decides between two: who has begun before is refused from now on.

        Does nothing when it is that already. Raises RefusedError when another one has begun since.
        """

    def forget_position(self) -> None:
        """Return to the state before the first batch: the next position may be lower than the forgotten one.

        For copies from another lake, which then replace rows and bookmarks.
        """

    def write_count(self, table: TableName) -> int:
        """The number of writes for a table since it was created, whether visible or not: shows progress."""

    def count(self, table: TableName, *, exact: bool) -> int | None:
        """The number of rows of a table.

        None if there is no such table, or if the follower would have to read everything and `exact` is false.
        """


def merge_versions(versions: Sequence[FeedRows], table: Table) -> FeedRows:
    """Merge the changes of successive versions into the last state of every key.

    If one version has a key both as gone and as a row, the row wins.
    """
    if len(versions) == 1:
        return versions[0]
    rows = pa.concat_tables([version.rows for version in versions])
    gone = pa.concat_tables([version.gone for version in versions])
    keys = concat_keys([_keys(rows, table), _keys(gone, table)])
    numbers = np.arange(len(versions))
    row_ages = np.repeat(numbers, [len(version.rows) for version in versions])
    gone_ages = np.repeat(numbers, [len(version.gone) for version in versions])
    # within a version a row is younger than a deletion of its key
    age = np.concatenate([row_ages * 2 + 1, gone_ages * 2])
    # sorted by key, then by age: lexsort begins with its last column
    order = np.lexsort((age, keys.low, keys.high))
    # the last entry of each key is the one before the next key's first
    last = order[np.append(keys.take(order).begins()[1:], True)] if len(order) else order
    row_places, gone_places = np.sort(last[last < len(rows)]), np.sort(last[last >= len(rows)]) - len(rows)
    return FeedRows(rows.take(pa.array(row_places)), gone.take(pa.array(gone_places)))


def _keys(rows: pa.Table, table: Table) -> KeyBits:
    return key_bits(table.key_columns, [rows[name] for name in table.key])
