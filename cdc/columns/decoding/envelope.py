"""Debezium's envelope, and the type of a decoded message."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Messages, Op

OPS: Final = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}
CONVERSION_ERRORS: Final = (ValueError, OverflowError, TypeError, pa.ArrowException)
"""The exceptions of a conversion for a value that its column cannot hold."""

DecodedMessage = tuple[int, Any, Any, Any]
"""A decoded message: its place among the messages, its envelope, its key, and the row's old key.

A plain tuple, not a NamedTuple: there is one for every change, and a plain one is built faster.
"""


# gc=False here and below: one for every change, none in a cycle, so the collector need not visit them
class Source(msgspec.Struct, gc=False):
    """The `source` block: of it only the transaction's id."""

    txId: int


class Transaction(msgspec.Struct, gc=False):
    """The `transaction` block: the change's number among those of its table.

    That is the same when the transaction is sent again. `total_order` is another one, if the connector captures more
    tables by then.
    """

    data_collection_order: int


class RefusedMessageError(Exception):
    """The message is no change; the text is the reason."""


class MessageForm(Protocol):
    """Reads the messages of a table with a key (`KeyedForm`) or without one (`KeylessForm`)."""

    def message(self, at: int, key: bytes | None, value: bytes, old_key: bytes | None) -> DecodedMessage:
        """Decode one message; raises RefusedMessageError, or an error of msgspec, if it is no change."""

    def changes(self, found: Sequence[DecodedMessage], messages: Messages) -> Changes:
        """Convert decoded messages to columns; raises one of CONVERSION_ERRORS if a column cannot hold a value."""

    def check(self, message: DecodedMessage) -> None:
        """Raise RefusedMessageError if this message has such a value."""


def envelope_decoder(rows: Sequence[tuple[str, Any]]) -> Callable[[bytes], Any]:
    """Make the decoder of an envelope with rows of these types, each of which may be missing."""
    own: list[tuple[str, Any, Any]] = [(name, row | None, None) for name, row in rows]
    fields: list[Any] = [("op", str), ("source", Source), ("transaction", Transaction), *own]
    return msgspec.json.Decoder(msgspec.defstruct("Envelope", fields, gc=False)).decode


def tx_ids(envelopes: Sequence[Any]) -> Integers:
    return integers([envelope.source.txId for envelope in envelopes])


def numbers(envelopes: Sequence[Any]) -> Integers:
    return integers([envelope.transaction.data_collection_order for envelope in envelopes])


def integers(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


def values_of(structs: Sequence[Any], field: str) -> list[Any]:
    """Read a field of every struct; None if the struct is None."""
    get: Callable[[Any], Any] = attrgetter(field)
    # two ways, so that the usual one, without None, tests no struct
    if None in structs:
        return [None if struct is None else get(struct) for struct in structs]
    return list(map(get, structs))
