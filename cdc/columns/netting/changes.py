"""Changes of one table as columns: what decoding gives and folding takes."""

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
    """Messages of a change topic, tombstones left out; in order within each partition.

    As they were read, value by value: what decodes them wants Python's bytes. `old_key` is the header of a create that
    a changed key caused; `moves_on` is true for the delete that it caused before.
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

    def refuse(self, at: int, refusal: Refusal, tx_id: int | None, total_order: int | None) -> "RefusedMessage":
        """The message at a place as one that is not applied."""
        texts = (self.key[at], self.value[at], self.old_key[at])
        return RefusedMessage(refusal, *texts, bool(self.moves_on[at]), tx_id, total_order)


class Op(IntEnum):
    """What a change did, by Debezium's letter."""

    CREATE = ord("c")
    UPDATE = ord("u")
    DELETE = ord("d")
    TRUNCATE = ord("t")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table, in any order; all columns are of one length.

    `tx_id`, `total_order`: which transaction, and where in it. `op`: an `Op`. `keys` and `key_columns`: the key as bits
    and as typed columns (meaningless and null for a TRUNCATE). `rows`: the table's columns, null for a DELETE or a
    TRUNCATE. `unsent`: for columns of which some value was not sent, where. `former` and `has_former`: the key that a
    CREATE's row had before. `moves_on`: a DELETE whose row goes on under another key.

    Of a table without a key, `keys` are the bits of the row that comes, `former` those of the row that goes, which
    `key_columns` hold, all of its columns (`cdc.columns.rows.row_fingerprints`).
    """

    tx_id: Integers
    total_order: Integers
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
        """The changes at these places, in their order."""
        return Changes(
            self.tx_id[at],
            self.total_order[at],
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
        """How many different changes there are: redelivered ones count once."""
        order = np.lexsort((self.total_order, self.tx_id))
        again = (np.diff(self.tx_id[order]) == 0) & (np.diff(self.total_order[order]) == 0)
        return len(order) - int(again.sum())

    @classmethod
    def concat(cls, parts: "Sequence[Changes]") -> "Changes":
        """Changes of one table, one behind the other; there is at least one part."""
        names = dict.fromkeys(name for part in parts for name in part.unsent)
        return cls(
            np.concatenate([part.tx_id for part in parts]),
            np.concatenate([part.total_order for part in parts]),
            np.concatenate([part.op for part in parts]),
            concat_keys([part.keys for part in parts]),
            pa.concat_tables([part.key_columns for part in parts]),
            pa.concat_tables([part.rows for part in parts]),
            # a part that has sent this column everywhere has no mask of it: false, once a change
            {name: np.concatenate([part.unsent.get(name, part.moves_on & False) for part in parts]) for name in names},
            concat_keys([part.former for part in parts]),
            np.concatenate([part.has_former for part in parts]),
            np.concatenate([part.moves_on for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that is not applied, with its bytes, the headers of a changed key, and where they could be read its
    transaction and its place in there."""

    refusal: Refusal
    key: bytes | None
    value: bytes
    old_key: bytes | None
    moves_on: bool
    tx_id: int | None
    total_order: int | None

    @property
    def waits(self) -> bool:
        """Could it be read, and waits for another?"""
        return self.refusal.waits


@dataclass(frozen=True, slots=True)
class Decoded:
    """Messages of one table, read: `changes`, the place in the messages of each, and what could not be read."""

    changes: Changes
    at: Integers
    refused: Sequence[RefusedMessage] = field(default=())
