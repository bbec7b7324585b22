"""Messages of a table with a key: the key identifies the row, and an update has only the new row."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrays import Mask
from cdc.columns.decoding.envelope import (
    OPS,
    DecodedMessage,
    RefusedMessageError,
    envelope_decoder,
    integers,
    numbers,
    tx_ids,
    values_of,
)
from cdc.columns.decoding.rows import RowDecoder
from cdc.columns.netting.changes import Changes, Messages, Op
from cdc.columns.rows.key_fingerprints import KeyBits, key_bits, zero_keys


class KeyedForm:
    """The form of a table with a key."""

    def __init__(self, rows: RowDecoder) -> None:
        self._rows = rows
        self._table = rows.table
        self._envelope = envelope_decoder([("after", rows.struct("Row", self._table.columns))])
        own_key = msgspec.json.Decoder(rows.struct("Key", self._table.key_columns))
        self._key: Callable[[bytes], Any] = own_key.decode

    def message(self, at: int, key: bytes | None, value: bytes, old_key: bytes | None) -> DecodedMessage:
        envelope = self._envelope(value)
        op = envelope.op
        if (op == "u" or op == "c") and key is not None and envelope.after is not None:  # noqa: PLR1714 - the hot path
            # Debezium sends a changed key as a delete and a create; the old key is a header of the create
            former = self._key(old_key) if old_key is not None and op == "c" else None
            return at, envelope, self._key(key), former
        return at, envelope, self._key_without_row(envelope, key), None

    def _key_without_row(self, envelope: Any, key: bytes | None) -> Any:
        """Read the key of a delete, None for a TRUNCATE; raises RefusedMessageError for other operations."""
        # first: below, `in` would find the empty text in any text
        if envelope.op not in OPS:
            raise RefusedMessageError(f"unknown operation {envelope.op[:20]!r}")
        if envelope.op in "cu" and envelope.after is None:
            raise RefusedMessageError("no row")
        if envelope.op in "dt" and envelope.after is not None:
            raise RefusedMessageError("a row where none may be")
        if envelope.op == "t":
            return None
        if key is None:
            raise RefusedMessageError("no key")
        return self._key(key)

    def changes(self, found: Sequence[DecodedMessage], messages: Messages) -> Changes:
        at, envelopes, keys, former = zip(*found, strict=True) if found else ((), (), (), ())
        after = values_of(envelopes, "after")
        key_columns = self._key_columns(keys)
        rows, unsent = self._rows.columns(after)
        _same_key(key_columns, rows, after)
        has_former = np.array([key is not None for key in former], np.bool_)
        op = np.array([OPS[envelope.op] for envelope in envelopes], np.uint8)
        return Changes(
            tx_ids(envelopes),
            numbers(envelopes),
            op,
            self._bits(key_columns, op != Op.TRUNCATE),
            key_columns,
            rows,
            unsent,
            self._bits(self._key_columns(former), has_former) if has_former.any() else zero_keys(len(found)),
            has_former,
            messages.moves_on[integers(at)] & (op == Op.DELETE),
        )

    def check(self, message: DecodedMessage) -> None:
        _, envelope, key, former = message
        self._rows.check("key column", self._table.key_columns, key, nulls=False, unsent=False)
        self._rows.check("former key column", self._table.key_columns, former, nulls=False, unsent=False)
        self._rows.check("column", self._table.columns, envelope.after, unsent=True)
        for name in self._table.key if envelope.after is not None else ():
            if self._rows.value(envelope.after, name) != self._rows.value(key, name):
                raise RefusedMessageError("its key is not that of its row")

    def _key_columns(self, keys: Sequence[Any]) -> pa.Table:
        columns = self._table.key_columns
        arrays = [self._rows.column(column, keys) for column in columns]
        for column, array in zip(columns, arrays, strict=True):
            # a TRUNCATE has no key; a null beyond those was sent, and no key has one
            if array.null_count > keys.count(None):
                raise ValueError(f"key column {column.name} is null")
        return pa.table(arrays, names=[column.name for column in columns])

    def _bits(self, columns: pa.Table, there: Mask) -> KeyBits:
        """Compute the keys' bits; zeros without a key."""
        if there.all():
            return key_bits(self._table.key_columns, columns.columns)
        # `key_bits` takes no nulls, so a TRUNCATE's key stays out
        own = key_bits(self._table.key_columns, columns.filter(pa.array(there)).columns)
        bits = zero_keys(len(there))
        bits.high[there], bits.low[there] = own.high, own.low
        return bits


def _same_key(keys: pa.Table, rows: pa.Table, after: Sequence[Any]) -> None:
    """Raise ValueError unless every row has the key of its message."""
    # the usual case, without deletes: whole columns are compared at once
    if None not in after and all(keys[name].equals(rows[name]) for name in keys.column_names):
        return
    has_row = pa.array([row is not None for row in after], pa.bool_())
    for name in keys.column_names:
        same = pc.fill_null(pc.equal(_comparable(keys[name]), _comparable(rows[name])), False)
        if not pc.all(pc.or_(same, pc.invert(has_row))).as_py():
            raise ValueError(f"a row has another {name} than its key")


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # NaN may be a key, and equals itself only as text
    return column.cast(pa.string()) if pa.types.is_floating(column.type) else column
