"""A batch as the lake takes it in: whole transactions, and the changes of every table that they touch."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cdc.columns.changes import Changes, Integers, Mask, RefusedMessage
from cdc.columns.ends import Ends
from cdc.columns.fold import Net, fold
from cdc.columns.fold_rows import fold_rows
from cdc.columns.key_bits import KeyBits
from cdc.core.table import Table, TableName


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows that are in a file of the table's folder already: its path there, what is known of it, the rows' keys.

    `size` is in bytes, `statistics` JSON as the table's log has it; `keys` are in the order of the rows, `existed` says
    which of them had a row before.
    """

    path: str
    size: int
    rows: int
    statistics: str
    keys: KeyBits
    existed: Mask


@dataclass(frozen=True, slots=True)
class TableEffect:
    """What a batch does to a table: rows that are written already, and the net effect that is still to be written.

    No key is in both.
    """

    net: Net
    written: Sequence[WrittenRows] = ()

    @property
    def is_empty(self) -> bool:
        return self.net.is_empty and not self.written


class ChangeBatch(Protocol):
    """Whole transactions in commit order, and what they do to each table."""

    @property
    def ends(self) -> Ends:
        """The transactions' ENDs."""

    @property
    def tables(self) -> Collection[TableName]:
        """The tables that the transactions touch, of those that are followed."""

    def refused(self, table: TableName) -> Sequence[RefusedMessage]:
        """The table's messages that are no changes; with one of them, nothing of the batch can be applied to it."""

    def effect(self, table: Table, after: int) -> TableEffect:
        """The effect on a table of the transactions whose END is behind the offset `after`."""


@dataclass(frozen=True, slots=True)
class TableChanges:
    """One table's part of a batch: changes of the batch's transactions, their ENDs' offsets, and what is no change."""

    changes: Changes
    ranks: Integers
    refused: Sequence[RefusedMessage] = ()


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A `ChangeBatch` whose changes are here, each table's with the place of its transaction."""

    ends: Ends
    changes: Mapping[TableName, TableChanges]

    @property
    def tables(self) -> Collection[TableName]:
        return self.changes.keys()

    def refused(self, table: TableName) -> Sequence[RefusedMessage]:
        return self.changes[table].refused

    def effect(self, table: Table, after: int) -> TableEffect:
        own = self.changes[table.name]
        late = own.ranks > after
        changes = own.changes if late.all() else own.changes.take(np.flatnonzero(late))
        return TableEffect((fold if table.key else fold_rows)(changes, own.ranks[late]))


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which transactions belong to a batch, and where: their ids in ascending order, and the offsets of their ENDs.

    By `source.txId`: Debezium's `transaction.id` is another one with every event of a transaction.
    """

    tx_ids: Integers
    offsets: Integers

    @classmethod
    def of(cls, ends: Ends) -> "Ranks":
        order = np.argsort(ends.tx_id, kind="stable")
        return cls(ends.tx_id[order], ends.offset[order])

    def is_behind(self, tx_id: int | None, offset: int) -> bool:
        """Has this transaction its END behind an offset? One that is not known may have."""
        return tx_id is None or bool(self.places(np.array([tx_id]))[0] > offset)

    def places(self, tx_ids: Integers) -> Integers:
        """The offset of each transaction's END, -1 for one that is not in the batch."""
        if not len(self.tx_ids):
            return np.full(len(tx_ids), -1)
        # an id above all of them is compared with the last one, and differs
        at = np.minimum(np.searchsorted(self.tx_ids, tx_ids), len(self.tx_ids) - 1)
        return np.where(self.tx_ids[at] == tx_ids, self.offsets[at], -1)
