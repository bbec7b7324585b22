"""A batch for the lake: whole transactions, and the changes of every table that they touch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.blocked_keys import BlockedKeys, split_blocked
from cdc.columns.netting.changes import Changes, Decoded, Messages, RefusedMessage
from cdc.columns.netting.ends import Ends
from cdc.columns.netting.net_changes import NetChanges, fold
from cdc.columns.netting.net_keyless import fold_keyless
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.core.table import Table, TableName


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """A file in the table's folder that already has rows of the batch.

    `path`: relative to the folder. `size`: in bytes. `statistics`: JSON as in the table's log. `keys`: in the order of
    the rows; `existed`: which of them had a row before.
    """

    path: str
    size: int
    rows: int
    statistics: str
    keys: KeyBits
    existed: Mask


@dataclass(frozen=True, slots=True)
class TableEffect:
    """The effect of a batch on a table: `written` rows are in files already, `net` is not; no key is in both."""

    net: NetChanges
    written: Sequence[WrittenRows] = ()

    @property
    def is_empty(self) -> bool:
        return self.net.is_empty and not self.written


@dataclass(frozen=True, slots=True)
class TablePart:
    """A batch's part for one table, behind the changes that the table has.

    `refused`: messages that become dead letters, since they cannot be decoded, or their key is blocked. `effect` folds
    all others; it takes long, so tables call it side by side. `changes`: those others, if they are in memory.
    """

    refused: Sequence[RefusedMessage]
    effect: Callable[[], TableEffect]
    changes: "TableChanges | None" = None


class ChangeBatch(Protocol):
    """Whole transactions in commit order, and their effect on each table."""

    @property
    def ends(self) -> Ends:
        """The transactions' ENDs."""

    @property
    def tables(self) -> Collection[TableName]:
        """The followed tables that the transactions touch."""

    def take(self, table: Table, after: int, blocked: BlockedKeys) -> TablePart:
        """Take the table's part of transactions whose END is above the offset `after`.

        A key is blocked by a refused message before it in the batch, or since it is in `blocked`.
        """


@dataclass(frozen=True, slots=True)
class TableChanges:
    """One table's part of a batch: changes, the offset of each change's END, and refused messages.

    `messages`: the messages that the changes were decoded from; `at`: the place of each change in them.
    """

    changes: Changes
    ranks: Integers
    refused: Sequence[RefusedMessage] = ()
    messages: Messages | None = None
    at: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def later(self, after: int, ends: Ends) -> "TableChanges":
        """Select the changes of transactions whose END is above the offset `after`."""
        late = self.ranks > after
        places = np.flatnonzero(late)
        # mostly all are behind: then no column is copied
        changes = self.changes if late.all() else self.changes.take(places)
        at = self.at[places] if self.messages is not None else self.at
        return TableChanges(changes, self.ranks[places], self._select_refused(after, ends), self.messages, at)

    def _select_refused(self, after: int, ends: Ends) -> Sequence[RefusedMessage]:
        # older messages are in the copy already, and may have had other columns
        ranks = Ranks.of(ends) if self.refused else None
        return [message for message in self.refused if ranks and ranks.is_behind(message.tx_id, after)]

    def without(self, blocked: BlockedKeys) -> "TableChanges":
        """Move the changes of blocked keys to the refused messages."""
        if self.messages is None or not (blocked or self.refused):
            return self
        decoded = split_blocked(self.messages, Decoded(self.changes, self.at, tuple(self.refused)), blocked)
        # `decoded` has the changes that stay in the order of `self`, so a mask finds their ranks
        ranks = self.ranks[np.isin(self.at, decoded.at)]
        return TableChanges(decoded.changes, ranks, decoded.refused, self.messages, decoded.at)


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A `ChangeBatch` in memory."""

    ends: Ends
    changes: Mapping[TableName, TableChanges]

    @property
    def tables(self) -> Collection[TableName]:
        return self.changes.keys()

    def take(self, table: Table, after: int, blocked: BlockedKeys) -> TablePart:
        own = self.changes[table.name].later(after, self.ends).without(blocked)
        return TablePart(own.refused, partial(_fold, own, has_key=bool(table.key)), own)


def _fold(own: TableChanges, *, has_key: bool) -> TableEffect:
    return TableEffect((fold if has_key else fold_keyless)(own.changes, own.ranks))


@dataclass(frozen=True, slots=True)
class Ranks:
    """The transactions of a batch: their ids in ascending order, and the offset of each one's END.

    The id is `source.txId`: Debezium's `transaction.id` differs in every event of a transaction.
    """

    tx_ids: Integers
    offsets: Integers

    @classmethod
    def of(cls, ends: Ends) -> "Ranks":
        order = np.argsort(ends.tx_id, kind="stable")
        return cls(ends.tx_id[order], ends.offset[order])

    def is_behind(self, tx_id: int | None, offset: int) -> bool:
        """Is this transaction's END above `offset`? True for an unknown transaction (None)."""
        return tx_id is None or self.place(tx_id) > offset

    def place(self, tx_id: int | None) -> int:
        """The offset of a transaction's END; -1 if it is not in the batch."""
        return -1 if tx_id is None else int(self.places(np.array([tx_id]))[0])

    def places(self, tx_ids: Integers) -> Integers:
        """The offset of each transaction's END; -1 if it is not in the batch."""
        if not len(self.tx_ids):
            return np.full(len(tx_ids), -1)
        # searchsorted returns the length for an id above all: compare it with the last one, from which it differs
        at = np.minimum(np.searchsorted(self.tx_ids, tx_ids), len(self.tx_ids) - 1)
        return np.where(self.tx_ids[at] == tx_ids, self.offsets[at], -1)
