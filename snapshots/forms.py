"""How a column of every kind leaves Postgres, and how its bytes become Arrow: the form in which followers hold it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from cdc.columns.arrays import Integers, Mask
from cdc.columns.arrow_types import arrow_type
from cdc.columns.moments import LAST_MICROSECOND, TOO_LATE
from cdc.columns.postgres_text import from_text
from cdc.columns.unfit import Unfit
from cdc.core.table import MONEY, Column, Kind
from snapshots.block import Field, Uneven

EPOCH_DAYS: Final = 10_957
"""Postgres counts from 2000, Arrow from 1970."""
EPOCH_MICROSECONDS: Final = EPOCH_DAYS * 86_400_000_000
LONGEST_BINARY: Final = 18
"""Decimals of so many digits fit 64 bits, and are put together from Postgres' own digits."""

Make = Callable[[Field, Column], pa.Array]


@dataclass(frozen=True, slots=True)
class Form:
    """What is selected of a column `{}`, how many bytes it has (0: as many as it has), and what makes Arrow of them."""

    selected: sql.SQL
    width: int
    make: Make


def form(column: Column) -> Form:
    """The form of a column; its `make` raises Unfit for a value that followers cannot hold."""
    if column.array:
        return Form(_AS_TEXT, 0, _read)
    if column.type == MONEY:
        # its own text is a locale's
        return Form(sql.SQL("{}::numeric::text"), 0, _long_decimal)
    if column.kind is Kind.DECIMAL and column.precision <= LONGEST_BINARY:
        return Form(sql.SQL("{}"), 0, _short_decimal)
    return _FORMS[column.kind]


def _numbers(wire: str) -> Make:
    def make(field: Field, column: Column) -> pa.Array:
        values = field.head(wire)
        return _array(column, field.there, values.astype(values.dtype.newbyteorder("=")))

    return make


def _booleans(field: Field, column: Column) -> pa.Array:
    return _array(column, field.there, np.packbits(field.head("u1") != 0, bitorder="little"), len(field.head("u1")))


def _dates(field: Field, column: Column) -> pa.Array:
    days = field.head(">i4").astype(np.int32)
    _fits(field.there, (days != np.iinfo(np.int32).min) & (days != np.iinfo(np.int32).max), "infinity")
    # a row without a value may have any number here, even one that has no room for more
    return _array(column, field.there, (days.astype(np.int64) + EPOCH_DAYS).astype(np.int32))


def _moments(field: Field, column: Column) -> pa.Array:
    # minus infinity is the smallest number, infinity the largest, which is too late anyway
    since = field.head(">i8").astype(np.int64)
    _fits(field.there, (since != np.iinfo(np.int64).min) & (since <= LAST_MICROSECOND - EPOCH_MICROSECONDS), TOO_LATE)
    return _array(column, field.there, since + EPOCH_MICROSECONDS)


def _array(column: Column, there: Mask | None, values: npt.NDArray[Any], rows: int | None = None) -> pa.Array:
    count = len(values) if rows is None else rows
    return pa.Array.from_buffers(
        arrow_type(column), count, [_validity(there), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _validity(there: Mask | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))


def _fits(there: Mask | None, fit: Mask, otherwise: str) -> None:
    if not (fit if there is None else fit | ~there).all():
        raise Unfit(otherwise)


_INLINE = 12
_KEPT = np.tri(_INLINE + 1, _INLINE, -1, np.uint8) * 255
"""By length: which of the first twelve bytes are a value's."""


def _viewed(field: Field) -> pa.Array:
    """Values of any length as Arrow's views: a short one in itself, a long one by its place in the block.

    Each is its length and twelve bytes (Arrow columnar format, "Variable-size Binary View Layout").
    """
    assert isinstance(field, Uneven)
    lengths = np.maximum(field.lengths, 0)
    views = np.empty((len(lengths), 4), np.int32)
    views[:, 0] = lengths
    # what follows a short value has to be zero; of a long one the first four bytes stay, as its prefix
    inline = field.head(f"V{_INLINE}").view(np.uint8).reshape(-1, _INLINE) & _KEPT[np.minimum(lengths, _INLINE)]
    views[:, 1:] = inline.view(np.int32)
    long = np.flatnonzero(lengths > _INLINE)
    views[long, 2] = 0
    views[long, 3] = field.at[long]
    buffers = [_validity(field.there), pa.py_buffer(views), pa.py_buffer(field.content)]
    return pa.Array.from_buffers(pa.binary_view(), len(views), buffers)


def _texts(field: Field, column: Column) -> pa.Array:
    # the cast copies: views would keep the whole block in memory for as long as one of its columns
    return _viewed(field).view(pa.string_view()).cast(pa.string())


def _bytes(field: Field, column: Column) -> pa.Array:
    return _viewed(field).cast(pa.binary())


def _read(field: Field, column: Column) -> pa.Array:
    """What has no binary form that is worth reading: as the stream reads it."""
    return from_text(_texts(field, column).to_pylist(), column)


def _long_decimal(field: Field, column: Column) -> pa.Array:
    texts = _texts(field, column)
    # infinity cannot be in a numeric with a precision (numeric.c, `apply_typmod_special`)
    if pc.any(pc.equal(texts, "NaN")).as_py():
        raise Unfit("NaN")
    return texts.cast(arrow_type(column))


# the infinities' signs are above NaN's
_NEGATIVE, _NOT_A_NUMBER = 0x4000, 0xC000
_BASE_DIGITS = 4
_POWERS = np.power(10, np.arange(LONGEST_BINARY + 1), dtype=np.int64)
_HEAD = np.dtype([("groups", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")])


def _short_decimal(field: Field, column: Column) -> pa.Array:
    """Numerics from their groups of four decimal digits (Postgres source, numeric.c, `numeric_send`)."""
    there, most = field.there, -(-(column.precision - column.scale) // _BASE_DIGITS) + -(-column.scale // _BASE_DIGITS)
    kind = np.dtype([("head", _HEAD), ("groups", ">i2", (max(most, 1),))])
    numbers = field.head(kind)
    head = numbers["head"]
    _fits(there, head["sign"] < _NOT_A_NUMBER, "NaN or infinity")
    count = head["groups"].astype(np.int64) if there is None else np.where(there, head["groups"], 0)
    power = head["weight"].astype(np.int64) * _BASE_DIGITS + column.scale
    value = np.zeros(len(numbers), np.int64)
    for group in range(int(count.max(initial=0))):
        value += _scaled(np.where(count > group, numbers["groups"][:, group], 0), power - group * _BASE_DIGITS)
    # Arrow's decimals have 128 bits: 64 of the value, and 64 of its sign
    signed = np.where(head["sign"] == _NEGATIVE, -value, value)
    return _array(column, there, np.stack([signed, signed >> 63], axis=1), len(signed))


def _scaled(group: Integers, power: Integers) -> Integers:
    """A group of digits times a power of ten; below none, its last digits are behind the column's scale, and 0."""
    least = int(power.min(initial=0))
    raised = group * _POWERS[np.clip(power, 0, LONGEST_BINARY)]
    return raised if least >= 0 else raised // _POWERS[np.clip(-power, 0, LONGEST_BINARY)]


_PLAIN, _AS_TEXT = sql.SQL("{}"), sql.SQL("{}::text")
# as it is written into the log, by the type's output function: a cast to text is another one for inet and some others.
# Not IS NULL, which is true of a composite whose fields all are
_AS_WRITTEN = sql.SQL("CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END")
_FORMS: Final = {
    Kind.BOOLEAN: Form(_PLAIN, 1, _booleans),
    Kind.SMALLINT: Form(_PLAIN, 2, _numbers(">i2")),
    Kind.INTEGER: Form(_PLAIN, 4, _numbers(">i4")),
    Kind.BIGINT: Form(_PLAIN, 8, _numbers(">i8")),
    Kind.REAL: Form(_PLAIN, 4, _numbers(">f4")),
    Kind.DOUBLE: Form(_PLAIN, 8, _numbers(">f8")),
    Kind.DECIMAL: Form(_AS_TEXT, 0, _long_decimal),
    Kind.NUMERIC: Form(_AS_TEXT, 0, _texts),
    Kind.TEXT: Form(_PLAIN, 0, _texts),
    Kind.ENUM: Form(_AS_TEXT, 0, _texts),
    Kind.JSON: Form(_AS_TEXT, 0, _texts),
    Kind.UUID: Form(_AS_TEXT, 0, _texts),
    Kind.BYTES: Form(_PLAIN, 0, _bytes),
    Kind.DATE: Form(_PLAIN, 4, _dates),
    # six decimals, as the log's times are written: `::text` leaves zeros at the end out
    Kind.TIME: Form(sql.SQL("to_char({}, 'HH24:MI:SS.US')"), 0, _texts),
    Kind.TIMESTAMP: Form(_PLAIN, 8, _moments),
    Kind.TIMESTAMPTZ: Form(_PLAIN, 8, _moments),
    Kind.OID: Form(sql.SQL("{}::bigint"), 8, _numbers(">i8")),
    Kind.INTERVAL: Form(_AS_TEXT, 0, _read),
    Kind.SHAPE: Form(_AS_TEXT, 0, _texts),
    Kind.LITERAL: Form(_AS_WRITTEN, 0, _texts),
}
