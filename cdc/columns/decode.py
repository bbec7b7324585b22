"""Messages in, changes out: Debezium's envelope, read by the table's own columns.

Total: every message but a tombstone becomes a change or a refusal with its reason. The messages are decoded by types
made for the table, all at once; only where that fails is the one message looked into that is to blame.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrow_types import arrow_schema
from cdc.columns.changes import Changes, Decoded, Integers, Mask, Messages, Op, RefusedMessage
from cdc.columns.key_bits import KeyBits, empty, key_bits
from cdc.columns.wire import wire
from cdc.core.refusal import Refusal
from cdc.core.table import Column, Kind, Table

TOASTABLE = frozenset({Kind.TEXT, Kind.JSON, Kind.BYTES, Kind.NUMERIC, Kind.DECIMAL})
"""Kinds of variable width: only they can be stored out of line (Postgres manual, "TOAST")."""

_OPS = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}
_UNFIT = (ValueError, OverflowError, TypeError, pa.ArrowException)
"""What a conversion raises for a value that its column cannot hold."""


class _Source(msgspec.Struct, gc=False):
    txId: int


class _Transaction(msgspec.Struct, gc=False):
    total_order: int


class _Head(msgspec.Struct, gc=False):
    """What tells where a message belongs, whatever else is wrong with it."""

    source: _Source


class _Loose(msgspec.Struct, gc=False):
    """A row of whatever columns."""

    after: dict[str, msgspec.Raw] | None = None


class _Refused(Exception):
    """This message is no change, for this reason."""


_NO_CHANGE = (msgspec.MsgspecError, UnicodeDecodeError, _Refused)
_Message = tuple[int, Any, Any, Any]
"""A decoded message: its place among the messages, its envelope, its key, and the key that its row had before."""


class Decoder:
    """Reads the messages of one table; `placeholder` is the connector's `unavailable.value.placeholder`."""

    def __init__(self, table: Table, placeholder: str) -> None:
        self._table = table
        self._placeholder = placeholder
        self._fields = {name: f"c{number}" for number, name in enumerate(table.column_names)}
        row = _struct("Row", table.columns, self._fields)
        envelope = msgspec.defstruct(
            "Envelope",
            [("op", str), ("source", _Source), ("transaction", _Transaction), ("after", row | None, None)],
            gc=False,
        )
        self._envelope: Callable[[bytes], Any] = msgspec.json.Decoder(envelope).decode
        self._key: Callable[[bytes], Any] = msgspec.json.Decoder(_struct("Key", table.key_columns, self._fields)).decode
        self._head = msgspec.json.Decoder(_Head).decode

    def decode(self, messages: Messages) -> Decoded:
        """Decode messages of the table's topic."""
        found, refused = self._parsed(messages)
        while True:
            try:
                changes = self._changes(found, messages)
            except _UNFIT as error:
                unfit = self._unfit(found, messages)
                if not unfit:
                    raise AssertionError(f"{self._table.name}: no message is to blame") from error
                refused += unfit.values()
                found = [message for message in found if message[0] not in unfit]
                continue
            return Decoded(changes, _integers([message[0] for message in found]), tuple(refused))

    def _parsed(self, messages: Messages) -> tuple[list[_Message], list[RefusedMessage]]:
        try:
            return list(map(self._message, range(len(messages)), messages.key, messages.value, messages.old_key)), []
        except _NO_CHANGE:
            return self._one_by_one(messages)

    def _one_by_one(self, messages: Messages) -> tuple[list[_Message], list[RefusedMessage]]:
        found, refused = [], []
        for at, (key, value, old_key) in enumerate(zip(messages.key, messages.value, messages.old_key, strict=True)):
            try:
                found.append(self._message(at, key, value, old_key))
            except _NO_CHANGE as error:
                refused.append(self._refusal(messages, at, self._reason(error, key, value)))
        return found, refused

    def _message(self, at: int, key: bytes | None, value: bytes, old_key: bytes | None) -> _Message:
        envelope = self._envelope(value)
        op = envelope.op
        if (op == "u" or op == "c") and key is not None and envelope.after is not None:  # noqa: PLR1714 - the hot path
            former = self._key(old_key) if old_key is not None and op == "c" else None
            return at, envelope, self._key(key), former
        return at, envelope, self._key_without_row(envelope, key), None

    def _key_without_row(self, envelope: Any, key: bytes | None) -> Any:
        """The key of a delete, None of a TRUNCATE; raises _Refused for what should have a row."""
        if envelope.op not in _OPS:
            raise _Refused(f"unknown operation {envelope.op[:20]!r}")
        if envelope.op in "cu" and envelope.after is None:
            raise _Refused("no row")
        if envelope.op in "dt" and envelope.after is not None:
            raise _Refused("a row where none may be")
        if envelope.op == "t":
            return None
        if key is None:
            raise _Refused("no key")
        return self._key(key)

    def _changes(self, found: Sequence[_Message], messages: Messages) -> Changes:
        at, envelopes, keys, former = zip(*found, strict=True) if found else ((), (), (), ())
        after = list(map(attrgetter("after"), envelopes))
        key_columns = self._key_columns(keys)
        rows, unsent = self._rows(after)
        _same_key(key_columns, rows, after)
        has_former = np.array([key is not None for key in former], np.bool_)
        op = np.array([_OPS[envelope.op] for envelope in envelopes], np.uint8)
        moves_on = messages.moves_on[_integers(at)]
        return Changes(
            _integers([envelope.source.txId for envelope in envelopes]),
            _integers([envelope.transaction.total_order for envelope in envelopes]),
            op,
            self._bits(key_columns, op != Op.TRUNCATE),
            key_columns,
            rows,
            unsent,
            self._bits(self._key_columns(former), has_former) if has_former.any() else _no_keys(len(found)),
            has_former,
            moves_on & (op == Op.DELETE),
        )

    def _key_columns(self, keys: Sequence[Any]) -> pa.Table:
        columns = self._table.key_columns
        arrays = [self._column(column, keys) for column in columns]
        for column, array in zip(columns, arrays, strict=True):
            if array.null_count > keys.count(None):
                raise ValueError(f"key column {column.name} is null")
        return pa.table(arrays, names=[column.name for column in columns])

    def _rows(self, rows: Sequence[Any]) -> tuple[pa.Table, dict[str, Mask]]:
        unsent: dict[str, Mask] = {}
        arrays = []
        for column in self._table.columns:
            values = _values(rows, self._fields[column.name])
            if column.kind in TOASTABLE and column.name not in self._table.key:
                values = self._without_placeholder(column, values, unsent)
            arrays.append(wire(column).to_arrow(values, column))
        return pa.Table.from_arrays(arrays, schema=arrow_schema(self._table)), unsent

    def _without_placeholder(self, column: Column, values: list[Any], unsent: dict[str, Mask]) -> list[Any]:
        stands = self._placeholder.encode() if column.kind is Kind.BYTES else self._placeholder
        if stands not in values:
            return values
        unsent[column.name] = np.array([value == stands for value in values], np.bool_)
        return [None if value == stands else value for value in values]

    def _column(self, column: Column, structs: Sequence[Any]) -> pa.Array:
        return wire(column).to_arrow(_values(structs, self._fields[column.name]), column)

    def _bits(self, columns: pa.Table, there: Mask) -> KeyBits:
        """The keys' bits; zeros where there is no key."""
        if there.all():
            return key_bits(self._table.key_columns, columns.columns)
        found = key_bits(self._table.key_columns, columns.filter(pa.array(there)).columns)
        bits = _no_keys(len(there))
        bits.high[there], bits.low[there] = found.high, found.low
        return bits

    def _unfit(self, found: Sequence[_Message], messages: Messages) -> dict[int, RefusedMessage]:
        """The messages that hold a value which its column cannot have, by their place, each with its reason."""
        refused = {}
        for message in found:
            try:
                self._check(message)
            except _Refused as error:
                refused[message[0]] = self._refusal(messages, message[0], str(error))
        return refused

    def _check(self, message: _Message) -> None:
        """Raises _Refused when the message alone is unfit."""
        _, envelope, key, former = message
        for what, columns, struct in (
            ("key column", self._table.key_columns, key),
            ("former key column", self._table.key_columns, former),
            ("column", self._table.columns, envelope.after),
        ):
            for column in columns if struct is not None else ():
                self._check_value(f"{what} {column.name}", column, getattr(struct, self._fields[column.name]))
        self._check_same_key(envelope.after, key)

    def _check_same_key(self, row: Any, key: Any) -> None:
        for field in (self._fields[name] for name in self._table.key) if row is not None else ():
            if getattr(row, field) != getattr(key, field):
                raise _Refused("its key is not that of its row")

    def _check_value(self, what: str, column: Column, value: Any) -> None:
        if value is None:
            if what.endswith(f"key column {column.name}"):
                raise _Refused(f"{what}: no {column.kind}")
            return
        if value in (self._placeholder, self._placeholder.encode()):
            return
        try:
            wire(column).to_arrow([value], column)
        except _UNFIT as error:
            raise _Refused(f"{what}: no {column.kind}") from error

    def _reason(self, error: Exception, key: bytes | None, value: bytes) -> str:
        """Half a sentence, without values of the message."""
        if isinstance(error, _Refused):
            return str(error)
        row, own_key = _names(value, _Loose, "after"), _names(key, dict[str, msgspec.Raw])
        if row is not None and (told := _differing("its columns", row, self._table.column_names)):
            return told
        if own_key is not None and (told := _differing("its key columns", own_key, self._table.key)):
            return told
        return f"no change event: {error}"

    def _refusal(self, messages: Messages, at: int, reason: str) -> RefusedMessage:
        refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), reason)
        value = messages.value[at]
        return RefusedMessage(refusal, messages.key[at], value, self._transaction_of(value))

    def _transaction_of(self, value: bytes) -> int | None:
        try:
            return int(self._head(value).source.txId)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _names(text: bytes | None, shape: Any, field: str = "") -> list[str] | None:
    """The names in a JSON object, or in its `field`; None where there is no such thing."""
    try:
        found = msgspec.json.decode(text or b"null", type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    found = getattr(found, field) if field else found
    return None if found is None else list(found)


def _differing(what: str, sent: Sequence[str], own: Sequence[str]) -> str | None:
    """How the names that were sent differ from the table's own, if they do."""
    came, went = (", ".join(name for name in a if name not in b) for a, b in ((sent, own), (own, sent)))
    return f"{what} have changed: more [{came}], less [{went}]" if came or went else None


def _struct(name: str, columns: Sequence[Column], fields: dict[str, str]) -> Any:
    """A type with exactly these columns: one that is missing, and one that is new, is an error."""
    own = [(fields[column.name], wire(column).sent_as | None) for column in columns]
    renamed = {field: column for column, field in fields.items()}
    return msgspec.defstruct(name, own, rename=renamed, forbid_unknown_fields=True, gc=False)


def _same_key(keys: pa.Table, rows: pa.Table, after: Sequence[Any]) -> None:
    """Raise ValueError unless the key of every row is that of its message."""
    if None not in after and all(keys[name].equals(rows[name]) for name in keys.column_names):
        return
    has_row = pa.array([row is not None for row in after], pa.bool_())
    for name in keys.column_names:
        same = pc.fill_null(pc.equal(keys[name], rows[name]), False)
        if not pc.all(pc.or_(same, pc.invert(has_row))).as_py():
            raise ValueError(f"a row has another {name} than its key")


def _values(structs: Sequence[Any], field: str) -> list[Any]:
    get: Callable[[Any], Any] = attrgetter(field)
    if None in structs:
        return [None if struct is None else get(struct) for struct in structs]
    return list(map(get, structs))


def _integers(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


def _no_keys(length: int) -> KeyBits:
    return KeyBits(np.zeros(length, np.uint64), np.zeros(length, np.uint64)) if length else empty()
