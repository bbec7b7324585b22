"""A batch as the lake takes it in: whole transactions, and the changes of every table that they touch."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.blocked_keys import BlockedKeys, split_blocked
from cdc.columns.netting.changes import Changes, Decoded, Messages, RefusedMessage
from cdc.columns.netting.net_changes import NetChanges, fold
from cdc.columns.netting.net_keyless import fold_keyless
from cdc.columns.netting.transactions import Ends
from cdc.columns.rows.key_fingerprints import KeyBits
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

    net: NetChanges
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

    def find_refused(self, table: Table, after: int, held: BlockedKeys) -> Sequence[RefusedMessage]:
        """The table's messages that are not applied, of transactions whose END is behind the offset `after`: those that
        are no changes, and those that wait behind them, or because their keys are `held`."""

    def effect(self, table: Table, after: int, held: BlockedKeys) -> TableEffect:
        """The effect on a table of all others."""


@dataclass(frozen=True, slots=True)
class TableChanges:
    """One table's part of a batch: changes of the batch's transactions, their ENDs' offsets, and what is no change.

    `messages` and `at`: what they were read from, and the place of each change in there.
    """

    changes: Changes
    ranks: Integers
    refused: Sequence[RefusedMessage] = ()
    messages: Messages | None = None
    at: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def later(self, after: int, ends: Ends) -> "TableChanges":
        """Those of transactions whose END is behind an offset."""
        late = self.ranks > after
        kept = np.flatnonzero(late)
        changes = self.changes if late.all() else self.changes.take(kept)
        at = self.at[kept] if self.messages is not None else self.at
        return TableChanges(changes, self.ranks[kept], self._select_refused(after, ends), self.messages, at)

    def _select_refused(self, after: int, ends: Ends) -> Sequence[RefusedMessage]:
        # what is older than a copy may have had any columns
        ranks = Ranks.of(ends) if self.refused else None
        return [each for each in self.refused if ranks and ranks.is_behind(each.tx_id, after)]

    def without(self, held: BlockedKeys) -> "TableChanges":
        """Those that need not wait; what waits is with the refused."""
        if self.messages is None or not (held or self.refused):
            return self
        found = split_blocked(self.messages, Decoded(self.changes, self.at, tuple(self.refused)), held)
        ranks = self.ranks[np.isin(self.at, found.at)]
        return TableChanges(found.changes, ranks, found.refused, self.messages, found.at)


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A `ChangeBatch` whose changes are here, each table's with the place of its transaction."""

    ends: Ends
    changes: Mapping[TableName, TableChanges]

    @property
    def tables(self) -> Collection[TableName]:
        return self.changes.keys()

    def find_refused(self, table: Table, after: int, held: BlockedKeys) -> Sequence[RefusedMessage]:
        return self._part(table, after, held).refused

    def effect(self, table: Table, after: int, held: BlockedKeys) -> TableEffect:
        own = self._part(table, after, held)
        return TableEffect((fold if table.key else fold_keyless)(own.changes, own.ranks))

    def _part(self, table: Table, after: int, held: BlockedKeys) -> TableChanges:
        return self.changes[table.name].later(after, self.ends).without(held)


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
        return tx_id is None or self.place(tx_id) > offset

    def place(self, tx_id: int | None) -> int:
        """The offset of a transaction's END, -1 for one that is not in the batch."""
        return -1 if tx_id is None else int(self.places(np.array([tx_id]))[0])

    def places(self, tx_ids: Integers) -> Integers:
        """The offset of each transaction's END, -1 for one that is not in the batch."""
        if not len(self.tx_ids):
            return np.full(len(tx_ids), -1)
        # an id above all of them is compared with the last one, and differs
        at = np.minimum(np.searchsorted(self.tx_ids, tx_ids), len(self.tx_ids) - 1)
        return np.where(self.tx_ids[at] == tx_ids, self.offsets[at], -1)
