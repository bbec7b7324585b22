"""What follows the lake takes in: whole rows by key, from what the lake's commits say they changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.rows.digest import Digest
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, key_bits
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import TableStoppedError
from cdc.core.follower import Follower
from cdc.core.table import Table, TableName


@dataclass(frozen=True, slots=True)
class FeedRows:
    """Changes of one table, at most one a key: `rows` (all columns) are there now, `gone` (key columns) no more."""

    rows: pa.Table
    gone: pa.Table

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.gone.nbytes)

    def __len__(self) -> int:
        return int(self.rows.num_rows + self.gone.num_rows)


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The effect of one or more cuts: for every table that changed, its changes in parts that share no key.

    The parts are read each time that somebody asks for them: a batch that could not be written can be written again.
    """

    tables: Mapping[TableName, Iterable[FeedRows]]


class Readable(Protocol):
    """A follower whose tables can be read back, for verification."""

    def rows(self, table: Table) -> DataFrame:
        """The table as the follower holds it now: the table's columns, typed as `row_type` says."""

    def digest(self, table: Table) -> Digest:
        """The digest of the same rows, made where they are read."""


class FedFollower(Follower[TableCopy, FeedBatch], Readable, Protocol):
    """A follower behind the lake: it takes in `Copy`s and `FeedBatch`es; its rows can be read back and perhaps
    counted.

    A table that it cannot hold stops alone: `prepare`, `load` and `apply` raise nothing for it, write down why, and go
    on with the others. Such a table has no bookmark any more, so that what it misses is not taken for applied; this is
    stored before the position moves. A later `load` that succeeds lets it take part again. `apply` leaves out the
    tables that are stopped, and stops those of which it has no copy.
    """

    def stops(self) -> Mapping[TableName, TableStoppedError]:
        """The tables that are stopped in this follower, each with the reason."""

    def close(self) -> None:
        """Let go of connections; the next call opens them again."""

    def forget_position(self) -> None:
        """Stand nowhere, as before the first batch: the next position may lie before the one that is forgotten.

        For copies from another lake. Rows and bookmarks stay until those take their place.
        """

    def write_count(self, table: TableName) -> int:
        """How often it has been written to for a table since that was made, not only what is seen: shows progress."""

    def count(self, table: TableName, *, exact: bool) -> int | None:
        """Its rows of a table; None when there is no such table, or unless `exact` where everything has to be read."""


def merge_versions(versions: Sequence[FeedRows], table: Table) -> FeedRows:
    """The changes of successive versions as one: the last state of every key.

    Where a version has a key's old row gone and its new one there, the row wins.
    """
    if len(versions) == 1:
        return versions[0]
    rows = pa.concat_tables([version.rows for version in versions])
    gone = pa.concat_tables([version.gone for version in versions])
    keys = concat_keys([_keys(rows, table), _keys(gone, table)])
    ages = [np.repeat(np.arange(len(versions)), [len(side) for side in sides]) for sides in _sides(versions)]
    # in one version, what is there is younger than what is gone
    age = np.concatenate([ages[0] * 2 + 1, ages[1] * 2])
    order = np.lexsort((age, keys.low, keys.high))
    # the last of each key stands before the next key's first
    last = order[np.append(keys.take(order).begins()[1:], True)] if len(order) else order
    kept_rows, kept_gone = np.sort(last[last < len(rows)]), np.sort(last[last >= len(rows)]) - len(rows)
    return FeedRows(rows.take(pa.array(kept_rows)), gone.take(pa.array(kept_gone)))


def _sides(versions: Sequence[FeedRows]) -> tuple[list[pa.Table], list[pa.Table]]:
    return [version.rows for version in versions], [version.gone for version in versions]


def _keys(rows: pa.Table, table: Table) -> KeyBits:
    return key_bits(table.key_columns, [rows[name] for name in table.key])
