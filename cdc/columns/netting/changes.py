"""Changes of one table as columns: the output of decoding, and the input of netting."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.core.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of a change topic without tombstones; in order within each partition.

    Keys and values are Python bytes, since msgspec decodes them one by one. An update of a key is a delete and a create
    (Debezium): `old_key` is a header of the create, `moves_on` is true for the delete.
    """

    topic: str
    partition: Integers
    offset: Integers
    key: Sequence[bytes | None]
    value: Sequence[bytes]
    old_key: Sequence[bytes | None]
    moves_on: Mask

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, stop: int) -> "Messages":
        """The messages at the places start ≤ place < stop."""
        at = slice(start, stop)
        texts = (self.key[at], self.value[at], self.old_key[at])
        return Messages(self.topic, self.partition[at], self.offset[at], *texts, self.moves_on[at])

    def refuse(self, at: int, refusal: Refusal, tx_id: int | None, number: int | None) -> "RefusedMessage":
        """Make a refused message of the message at place `at`."""
        texts = (self.key[at], self.value[at], self.old_key[at])
        return RefusedMessage(refusal, *texts, bool(self.moves_on[at]), tx_id, number)


class Op(IntEnum):
    """The operation of a change, as Debezium's letter."""

    # letters as numbers: so a column of them is an array of bytes
    CREATE = ord("c")
    UPDATE = ord("u")
    DELETE = ord("d")
    TRUNCATE = ord("t")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table, in any order; all columns have the same length.

    | column | content |
    |---|---|
    | `tx_id`, `number` | the transaction, and the change's number among those of the table in it |
    | `op` | an `Op` |
    | `keys`, `key_columns` | the key as bits and as typed columns; meaningless and null for a TRUNCATE |
    | `rows` | the table's columns; null for a DELETE or a TRUNCATE |
    | `unsent` | column name → in which rows its value was not sent; only columns with such rows |
    | `former`, `has_former` | the old key of a CREATE that an update of the key caused |
    | `moves_on` | a DELETE that an update of the key caused |

    An insert of key 1, an update of it to key 2 that leaves the TOAST column `text` out, and a delete of key 2:

        op       keys  rows             unsent[text]  former  moves_on
        CREATE   1     (1, "long ...")  false         -       false
        DELETE   1     null             false         -       true
        CREATE   2     (2, null)        true          1       false
        DELETE   2     null             false         -       false

    `fold` nets these to nothing, since key 2 ends without a row and neither key had one before.

    In a table without a key, `keys` are the bits of the new row, and `former` those of the old row, whose columns are
    in `key_columns` (`cdc.columns.rows.row_fingerprints`).
    """

    tx_id: Integers
    number: Integers
    op: npt.NDArray[np.uint8]
    keys: KeyBits
    key_columns: pa.Table
    rows: pa.Table
    unsent: dict[str, Mask]
    former: KeyBits
    has_former: Mask
    moves_on: Mask

    def __len__(self) -> int:
        return len(self.tx_id)

    def take(self, at: npt.NDArray[Any]) -> "Changes":
        """Select the changes at these places, in their order."""
        return Changes(
            self.tx_id[at],
            self.number[at],
            self.op[at],
            self.keys.take(at),
            self.key_columns.take(at),
            self.rows.take(at),
            {name: mask[at] for name, mask in self.unsent.items()},
            self.former.take(at),
            self.has_former[at],
            self.moves_on[at],
        )

    def distinct(self) -> int:
        """Count the different changes: redelivered ones count once."""
        return len(_places_once(self.tx_id, self.number))

    def has_conflicts(self) -> bool:
        """Did a change come again as another one: with another key, or of another operation?

        The halves of one transaction are then from two captures, and its END counts those of one.
        """
        order, is_again = _sort_places(self.tx_id, self.number)
        again = np.flatnonzero(is_again)
        first, then = order[again - 1], order[again]
        same = (self.keys.high[first] == self.keys.high[then]) & (self.keys.low[first] == self.keys.low[then])
        return not bool((same & (self.op[first] == self.op[then])).all())

    def unpaired(self) -> int:
        """How many more deletes than creates come from updates of keys, in a table with a key; redelivered ones count
        once.

        Not 0 when the log lacks a half of such an update: Debezium may have been killed between the two.
        """
        halves = np.flatnonzero(self.moves_on | self.has_former)
        once = halves[_places_once(self.tx_id[halves], self.number[halves])]
        return int(self.moves_on[once].sum()) - int(self.has_former[once].sum())

    @classmethod
    def concat(cls, parts: "Sequence[Changes]") -> "Changes":
        """Concatenate changes of one table; there is at least one part."""
        names = dict.fromkeys(name for part in parts for name in part.unsent)
        return cls(
            np.concatenate([part.tx_id for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.op for part in parts]),
            concat_keys([part.keys for part in parts]),
            pa.concat_tables([part.key_columns for part in parts]),
            pa.concat_tables([part.rows for part in parts]),
            # a part without unsent values of this column has no mask: false for all its changes
            {name: np.concatenate([part.unsent.get(name, part.moves_on & False) for part in parts]) for name in names},
            concat_keys([part.former for part in parts]),
            np.concatenate([part.has_former for part in parts]),
            np.concatenate([part.moves_on for part in parts]),
        )


def order_changes(changes: Changes, ranks: Integers) -> Integers:
    """The places of the changes in commit order, each change once."""
    return _places_once(ranks, changes.number)


def _places_once(transactions: Integers, number: Integers) -> Integers:
    """The places of changes in the order of both columns; of those that came again, the first."""
    order, is_again = _sort_places(transactions, number)
    return order[~is_again]


def _sort_places(transactions: Integers, number: Integers) -> tuple[Integers, Mask]:
    """The places of changes in the order of both columns, and which of these came before already: those behind it."""
    # lexsort sorts by its last column first
    order: Integers = np.lexsort((number, transactions))
    is_again = np.zeros(len(order), np.bool_)
    is_again[1:] = (np.diff(transactions[order]) == 0) & (np.diff(number[order]) == 0)
    return order, is_again


def sort_changes(changes: Changes, ranks: Integers) -> tuple[Integers, bool]:
    """Sort changes into their total order, without redeliveries and without those before the last TRUNCATE.

    Returns their places, and whether there was a TRUNCATE.
    """
    order = order_changes(changes, ranks)
    truncates = np.flatnonzero(changes.op[order] == Op.TRUNCATE)
    return (order[truncates[-1] + 1 :], True) if len(truncates) else (order, False)


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that is not applied: its bytes, the headers of a key update, and its transaction.

    `tx_id` and `number` are None if they could not be decoded.
    """

    refusal: Refusal
    key: bytes | None
    value: bytes
    old_key: bytes | None
    moves_on: bool
    tx_id: int | None
    number: int | None

    @property
    def waits(self) -> bool:
        """Is the message valid, and waits for another one of its key?"""
        return self.refusal.waits


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded messages of one table: `changes`, the place `at` of each in the messages, and the refused messages."""

    changes: Changes
    at: Integers
    refused: Sequence[RefusedMessage] = field(default=())
