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
from cdc.columns.values.arrow_types import LONGEST_WHOLE, arrow_type
from cdc.columns.values.postgres_text import from_text, nearest_doubles
from cdc.columns.values.timestamps import LAST_MICROSECOND, TOO_LATE
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import MONEY, NUMERIC, Column, Kind
from snapshots.binary_copy import Field, VariableColumn

EPOCH_DAYS: Final = 10_957
"""Postgres counts from 2000, Arrow from 1970."""
EPOCH_MICROSECONDS: Final = EPOCH_DAYS * 86_400_000_000

Make = Callable[[Field, Column], pa.Array]


@dataclass(frozen=True, slots=True)
class CopyType:
    """What is selected of a column `{}`, how many bytes it has (0: as many as it has), and what makes Arrow of them."""

    selected: sql.SQL
    width: int
    make: Make


def copy_type(column: Column) -> CopyType:
    """The form of a column; its `make` raises Unfit for a value that followers cannot hold."""
    if column.array:
        return CopyType(_AS_TEXT, 0, _read)
    if column.kind is Kind.DOUBLE and column.type == NUMERIC:
        return CopyType(_AS_TEXT, 0, _nearest)
    if column.type == MONEY:
        # its own text is a locale's
        return CopyType(sql.SQL("{}::numeric::text"), 0, _long_decimal)
    if column.kind is Kind.DECIMAL and column.precision <= LONGEST_WHOLE:
        return CopyType(sql.SQL("{}"), 0, _short_decimal)
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
    _check_supported(field.there, (days != np.iinfo(np.int32).min) & (days != np.iinfo(np.int32).max), "infinity")
    # a row without a value may have any number here, even one that has no room for more
    return _array(column, field.there, (days.astype(np.int64) + EPOCH_DAYS).astype(np.int32))


def _timestamps(field: Field, column: Column) -> pa.Array:
    # minus infinity is the smallest number, infinity the largest, which is too late anyway
    since = field.head(">i8").astype(np.int64)
    _check_supported(
        field.there, (since != np.iinfo(np.int64).min) & (since <= LAST_MICROSECOND - EPOCH_MICROSECONDS), TOO_LATE
    )
    return _array(column, field.there, since + EPOCH_MICROSECONDS)


def _array(column: Column, there: Mask | None, values: npt.NDArray[Any], rows: int | None = None) -> pa.Array:
    count = len(values) if rows is None else rows
    return pa.Array.from_buffers(
        arrow_type(column), count, [_validity(there), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _validity(there: Mask | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))


def _check_supported(there: Mask | None, fit: Mask, otherwise: str) -> None:
    if not (fit if there is None else fit | ~there).all():
        raise UnsupportedValueError(otherwise)


def _to_strings(field: Field, kind: pa.DataType) -> pa.Array:
    """Values of any length as Arrow's strings or bytes, which lie one behind the other as they do here."""
    assert isinstance(field, VariableColumn)
    # a block is no longer than one CopyData message behind BLOCK_BYTES, and a message no longer than 1 GiB
    offsets, content = pa.py_buffer(field.bounds.astype(np.int32)), pa.py_buffer(field.content)
    return pa.Array.from_buffers(kind, len(field), [_validity(field.there), offsets, content])


def _texts(field: Field, column: Column) -> pa.Array:
    return _to_strings(field, pa.string())


def _bytes(field: Field, column: Column) -> pa.Array:
    return _to_strings(field, pa.binary())


def _read(field: Field, column: Column) -> pa.Array:
    """What has no binary form that is worth reading: as the stream reads it."""
    return from_text(_texts(field, column).to_pylist(), column)


def _nearest(field: Field, column: Column) -> pa.Array:
    return nearest_doubles(_texts(field, column))


def _long_decimal(field: Field, column: Column) -> pa.Array:
    texts = _texts(field, column)
    # infinity cannot be in a numeric with a precision (numeric.c, `apply_typmod_special`)
    if pc.any(pc.equal(texts, "NaN")).as_py():
        raise UnsupportedValueError("NaN")
    return texts.cast(arrow_type(column))


_NEGATIVE = 0x4000
_BASE_DIGITS = 4
_POWERS = np.power(10, np.arange(LONGEST_WHOLE + 1), dtype=np.int64)
_GROUPS, _WEIGHT, _SIGN, _FIRST = 0, 1, 2, 4


def _short_decimal(field: Field, column: Column) -> pa.Array:
    """Numerics from their groups of four decimal digits (Postgres source, numeric.c, `numeric_send`).

    In two bytes each: how many groups, the first's power of 10,000, sign, decimals that are shown, the groups.
    """
    assert isinstance(field, VariableColumn)
    there, words, at = field.there, field.content.view(">i2"), field.bounds[:-1] // 2

    def word(place: int) -> Integers:
        return words[at + place].astype(np.int64)

    sign = word(_SIGN)
    # two bytes with their highest bit set, as a number below 0
    _check_supported(there, sign >= 0, "NaN or infinity")
    # a row without a value has that of the next one
    count = word(_GROUPS) if there is None else np.where(there, word(_GROUPS), 0)
    if ((count + _FIRST) * 2 != field.lengths)[slice(None) if there is None else there].any():
        raise ValueError(f"these are no numerics of {len(field)} rows")
    power = word(_WEIGHT) * _BASE_DIGITS + column.scale
    value = np.zeros(len(field), np.int64)
    for group in range(int(count.max(initial=0))):
        value += _scale(np.where(count > group, word(_FIRST + group), 0), power - group * _BASE_DIGITS)
    # Arrow's decimals have 128 bits: 64 of the value, and 64 of its sign
    both = np.empty((len(value), 2), np.int64)
    np.negative(value, out=value, where=sign == _NEGATIVE)
    both[:, 0], both[:, 1] = value, value >> 63
    return _array(column, there, both, len(value))


def _scale(group: Integers, power: Integers) -> Integers:
    """A group of digits times a power of ten; below none, its last digits are behind the column's scale, and 0."""
    least = int(power.min(initial=0))
    raised = group * _POWERS[np.clip(power, 0, LONGEST_WHOLE)]
    return raised if least >= 0 else raised // _POWERS[np.clip(-power, 0, LONGEST_WHOLE)]


_PLAIN, _AS_TEXT = sql.SQL("{}"), sql.SQL("{}::text")
# as it is written into the log, by the type's output function: a cast to text is another one for inet and some others.
# Not IS NULL, which is true of a composite whose fields all are
_AS_WRITTEN = sql.SQL("CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END")
_FORMS: Final = {
    Kind.BOOLEAN: CopyType(_PLAIN, 1, _booleans),
    Kind.SMALLINT: CopyType(_PLAIN, 2, _numbers(">i2")),
    Kind.INTEGER: CopyType(_PLAIN, 4, _numbers(">i4")),
    Kind.BIGINT: CopyType(_PLAIN, 8, _numbers(">i8")),
    Kind.REAL: CopyType(_PLAIN, 4, _numbers(">f4")),
    Kind.DOUBLE: CopyType(_PLAIN, 8, _numbers(">f8")),
    Kind.DECIMAL: CopyType(_AS_TEXT, 0, _long_decimal),
    Kind.NUMERIC: CopyType(_AS_TEXT, 0, _texts),
    Kind.TEXT: CopyType(_PLAIN, 0, _texts),
    Kind.ENUM: CopyType(_AS_TEXT, 0, _texts),
    Kind.JSON: CopyType(_AS_TEXT, 0, _texts),
    Kind.UUID: CopyType(_AS_TEXT, 0, _texts),
    Kind.BYTES: CopyType(_PLAIN, 0, _bytes),
    Kind.DATE: CopyType(_PLAIN, 4, _dates),
    # six decimals, as the log's times are written: `::text` leaves zeros at the end out
    Kind.TIME: CopyType(sql.SQL("to_char({}, 'HH24:MI:SS.US')"), 0, _texts),
    Kind.TIMESTAMP: CopyType(_PLAIN, 8, _timestamps),
    Kind.TIMESTAMPTZ: CopyType(_PLAIN, 8, _timestamps),
    Kind.OID: CopyType(sql.SQL("{}::bigint"), 8, _numbers(">i8")),
    Kind.INTERVAL: CopyType(_AS_TEXT, 0, _read),
    Kind.GEOMETRIC: CopyType(_AS_TEXT, 0, _texts),
    Kind.LITERAL: CopyType(_AS_WRITTEN, 0, _texts),
}
