"""What all of Debezium's messages have, and what a decoded one is."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Messages, Op
from cdc.columns.rows.key_fingerprints import KeyBits, empty_keys

OPS: Final = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}
CONVERSION_ERRORS: Final = (ValueError, OverflowError, TypeError, pa.ArrowException)
"""What a conversion raises for a value that its column cannot hold."""

DecodedMessage = tuple[int, Any, Any, Any]
"""A decoded message: its place among the messages, its envelope, its key, and the key that its row had before."""


class Source(msgspec.Struct, gc=False):
    """Where a change comes from."""

    txId: int


class Transaction(msgspec.Struct, gc=False):
    """Its place in the transaction."""

    total_order: int


class RefusedMessageError(Exception):
    """This message is no change, for this reason."""


class MessageForm(Protocol):
    """How the messages of a table with a key, or of one without, are read."""

    def message(self, at: int, key: bytes | None, value: bytes, old_key: bytes | None) -> DecodedMessage:
        """One message, decoded; raises Refused, and what msgspec raises, for what is no change."""

    def changes(self, found: Sequence[DecodedMessage], messages: Messages) -> Changes:
        """Decoded messages as columns; raises one of UNFIT when some value is not its column's."""

    def check(self, message: DecodedMessage) -> None:
        """Raises Refused when this message is to blame for that."""


def envelope_decoder(rows: Sequence[tuple[str, Any]]) -> Callable[[bytes], Any]:
    """What decodes an envelope with rows of these types, each of which may be missing."""
    own: list[tuple[str, Any, Any]] = [(name, row | None, None) for name, row in rows]
    fields: list[Any] = [("op", str), ("source", Source), ("transaction", Transaction), *own]
    return msgspec.json.Decoder(msgspec.defstruct("Envelope", fields, gc=False)).decode


def tx_ids(envelopes: Sequence[Any]) -> Integers:
    return integers([envelope.source.txId for envelope in envelopes])


def total_orders(envelopes: Sequence[Any]) -> Integers:
    return integers([envelope.transaction.total_order for envelope in envelopes])


def integers(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


def values_of(structs: Sequence[Any], field: str) -> list[Any]:
    """A field of every struct; None where there is no struct."""
    get: Callable[[Any], Any] = attrgetter(field)
    if None in structs:
        return [None if struct is None else get(struct) for struct in structs]
    return list(map(get, structs))


def zero_bits(length: int) -> KeyBits:
    return KeyBits(np.zeros(length, np.uint64), np.zeros(length, np.uint64)) if length else empty_keys()
