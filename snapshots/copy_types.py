"""The form of each kind of column in a copy: its expression in the SELECT, and the conversion of its bytes to Arrow."""

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
from cdc.columns.values.decimals import to_decimals
from cdc.columns.values.postgres_text import from_text, nearest_doubles
from cdc.columns.values.timestamps import LAST_MICROSECOND, TOO_LATE
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import MONEY, NUMERIC, Column, Kind
from cdc.snapshots.binary_copy import Field, VariableColumn

EPOCH_DAYS: Final = 10_957
"""From 1970, Arrow's epoch, to 2000, Postgres's."""
EPOCH_MICROSECONDS: Final = EPOCH_DAYS * 86_400_000_000

Make = Callable[[Field, Column], pa.Array]


@dataclass(frozen=True, slots=True)
class CopyType:
    """The SELECT expression of a column `{}`, the width of its values in bytes (0: variable), and their conversion."""

    selected: sql.SQL
    width: int
    make: Make


def copy_type(column: Column) -> CopyType:
    """The form of a column; its `make` raises UnsupportedValueError for a value that followers cannot hold."""
    if column.array:
        return CopyType(_AS_TEXT, 0, _read)
    if column.kind is Kind.DOUBLE and column.type == NUMERIC:
        return CopyType(_AS_TEXT, 0, _nearest)
    if column.type == MONEY:
        # money's own text depends on the locale
        return CopyType(sql.SQL("{}::numeric::text"), 0, _long_decimal)
    if column.kind is Kind.DECIMAL and column.chosen:
        # Postgres has no bounds for its values, on which the other ways rely
        return CopyType(_AS_TEXT, 0, _chosen_decimal)
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
    # a NULL may have any number here: the sum in 64 bits cannot overflow
    return _array(column, field.there, (days.astype(np.int64) + EPOCH_DAYS).astype(np.int32))


def _timestamps(field: Field, column: Column) -> pa.Array:
    # -infinity is the smallest number; infinity is the largest, and so too late anyway
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
    """Make Arrow strings or bytes, which have the same layout: concatenated values and offsets."""
    assert isinstance(field, VariableColumn)
    # int32 is enough: a block has BLOCK_BYTES and one more CopyData message, which has at most 1 GiB
    offsets, content = pa.py_buffer(field.bounds.astype(np.int32)), pa.py_buffer(field.content)
    return pa.Array.from_buffers(kind, len(field), [_validity(field.there), offsets, content])


def _texts(field: Field, column: Column) -> pa.Array:
    return _to_strings(field, pa.string())


def _bytes(field: Field, column: Column) -> pa.Array:
    return _to_strings(field, pa.binary())


def _read(field: Field, column: Column) -> pa.Array:
    """Parse Postgres's text, like the stream, for types whose binary form is not worth parsing."""
    return from_text(_texts(field, column).to_pylist(), column)


def _nearest(field: Field, column: Column) -> pa.Array:
    return nearest_doubles(_texts(field, column))


def _long_decimal(field: Field, column: Column) -> pa.Array:
    texts = _texts(field, column)
    # a numeric with a precision cannot be infinite (numeric.c, `apply_typmod_special`)
    if pc.any(pc.equal(texts, "NaN")).as_py():
        raise UnsupportedValueError("NaN")
    return texts.cast(arrow_type(column))


def _chosen_decimal(field: Field, column: Column) -> pa.Array:
    return to_decimals(_texts(field, column), column)


_NEGATIVE = 0x4000
_BASE_DIGITS = 4
_POWERS = np.power(10, np.arange(LONGEST_WHOLE + 1), dtype=np.int64)
_GROUPS, _WEIGHT, _SIGN, _FIRST = 0, 1, 2, 4


def _short_decimal(field: Field, column: Column) -> pa.Array:
    """Convert numerics from Postgres's groups of four decimal digits (numeric.c, `numeric_send`).

    Words of two bytes: number of groups, power of 10,000 of the first, sign, displayed decimals, the groups.
    """
    assert isinstance(field, VariableColumn)
    there, words, at = field.there, field.content.view(">i2"), field.bounds[:-1] // 2

    def word(place: int) -> Integers:
        return words[at + place].astype(np.int64)

    sign = word(_SIGN)
    # NaN and infinity have the highest bit set: a negative word
    _check_supported(there, sign >= 0, "NaN or infinity")
    # at a NULL, these bytes belong to the next value
    count = word(_GROUPS) if there is None else np.where(there, word(_GROUPS), 0)
    if ((count + _FIRST) * 2 != field.lengths)[slice(None) if there is None else there].any():
        raise ValueError(f"these are no numerics of {len(field)} rows")
    power = word(_WEIGHT) * _BASE_DIGITS + column.scale
    value = np.zeros(len(field), np.int64)
    for group in range(int(count.max(initial=0))):
        value += _scale(np.where(count > group, word(_FIRST + group), 0), power - group * _BASE_DIGITS)
    # Arrow's decimals have 128 bits: 64 with the value, and 64 with its sign
    both = np.empty((len(value), 2), np.int64)
    np.negative(value, out=value, where=sign == _NEGATIVE)
    both[:, 0], both[:, 1] = value, value >> 63
    return _array(column, there, both, len(value))


def _scale(group: Integers, power: Integers) -> Integers:
    """Multiply groups of digits by powers of ten; for a negative power, the cut digits are 0 by the column's scale."""
    least = int(power.min(initial=0))
    raised = group * _POWERS[np.clip(power, 0, LONGEST_WHOLE)]
    return raised if least >= 0 else raised // _POWERS[np.clip(-power, 0, LONGEST_WHOLE)]


_PLAIN, _AS_TEXT = sql.SQL("{}"), sql.SQL("{}::text")
# format('%s') uses the type's output function, like the log; a cast to text differs for inet and some others. IS
# DISTINCT FROM NULL, since IS NULL is true for a composite whose fields are all null
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
    # six decimals, as in the log: `::text` leaves trailing zeros out
    Kind.TIME: CopyType(sql.SQL("to_char({}, 'HH24:MI:SS.US')"), 0, _texts),
    Kind.TIMESTAMP: CopyType(_PLAIN, 8, _timestamps),
    Kind.TIMESTAMPTZ: CopyType(_PLAIN, 8, _timestamps),
    Kind.OID: CopyType(sql.SQL("{}::bigint"), 8, _numbers(">i8")),
    Kind.INTERVAL: CopyType(_AS_TEXT, 0, _read),
    Kind.GEOMETRIC: CopyType(_AS_TEXT, 0, _texts),
    Kind.LITERAL: CopyType(_AS_WRITTEN, 0, _texts),
}
