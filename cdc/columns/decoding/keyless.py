"""Messages of a table without a key: old and new rows are whole (replica identity FULL)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Mask
from cdc.columns.decoding.envelope import (
    OPS,
    DecodedMessage,
    RefusedMessageError,
    envelope_decoder,
    numbers,
    tx_ids,
    values_of,
)
from cdc.columns.decoding.rows import RowDecoder
from cdc.columns.netting.changes import Changes, Messages
from cdc.columns.rows.key_fingerprints import KeyBits, zero_keys
from cdc.columns.rows.row_fingerprints import row_bits

_ROWS: Final = {"c": (True, False), "u": (True, True), "d": (False, True), "t": (False, False)}
"""Operation → whether the message has a new row, and an old row."""


class KeylessForm:
    """The form of a table without a key."""

    def __init__(self, rows: RowDecoder) -> None:
        self._rows = rows
        self._table = rows.table
        row = rows.struct("Row", self._table.columns)
        self._envelope = envelope_decoder([("after", row), ("before", row)])

    def message(self, at: int, key: bytes | None, value: bytes, old_key: bytes | None) -> DecodedMessage:
        envelope = self._envelope(value)
        if envelope.op not in _ROWS:
            raise RefusedMessageError(f"unknown operation {envelope.op[:20]!r}")
        comes, goes = _ROWS[envelope.op]
        for name, row, expected in (("row", envelope.after, comes), ("old row", envelope.before, goes)):
            if (row is not None) != expected:
                raise RefusedMessageError(f"no {name}" if expected else f"{name} where none may be")
        return at, envelope, None, None

    def changes(self, found: Sequence[DecodedMessage], messages: Messages) -> Changes:
        envelopes = [envelope for _, envelope, _, _ in found]
        after, before = values_of(envelopes, "after"), values_of(envelopes, "before")
        (rows, unsent), (gone, not_sent) = self._rows.columns(after), self._rows.columns(before)
        # with replica identity FULL Debezium sends every value, also TOAST that did not change
        if unsent or not_sent:
            raise ValueError("a value was not sent")
        goes = _there(before)
        return Changes(
            tx_ids(envelopes),
            numbers(envelopes),
            np.array([OPS[envelope.op] for envelope in envelopes], np.uint8),
            self._bits(rows, _there(after)),
            gone,
            rows,
            {},
            self._bits(gone, goes),
            goes,
            # no delete is half of an update here: an update has both rows in one message
            np.zeros(len(goes), np.bool_),
        )

    def check(self, message: DecodedMessage) -> None:
        envelope = message[1]
        self._rows.check("column", self._table.columns, envelope.after, unsent=False)
        self._rows.check("old column", self._table.columns, envelope.before, unsent=False)

    def _bits(self, rows: pa.Table, there: Mask) -> KeyBits:
        """Compute the rows' bits; zeros for missing rows."""
        bits, own = zero_keys(len(there)), row_bits(rows.filter(pa.array(there)), self._table)
        bits.high[there], bits.low[there] = own.high, own.low
        return bits


def _there(rows: Sequence[Any]) -> Mask:
    return np.array([row is not None for row in rows], np.bool_)
