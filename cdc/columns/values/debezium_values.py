"""Debezium's JSON for each kind of column, and its conversion to Arrow: the only place that knows both.

Every conversion is exact or raises. `to_arrow` converts a whole column; after an error, the decoder searches the value
message by message.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.values.arrow_types import arrow_type
from cdc.columns.values.decimals import NOT_NUMBERS, to_decimals
from cdc.columns.values.geometric_types import as_postgres
from cdc.columns.values.postgres_text import from_text, nearest_doubles
from cdc.columns.values.timestamps import (
    LAST_MICROSECOND,
    MICROS_A_SECOND,
    SECONDS_A_DAY,
    TOO_LATE,
    days_of,
    time_of_day,
    zone_offset,
)
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import NUMERIC, Column, Kind

POSTGRES_DAYS = (-2_440_953, 2_145_042_905)
POSTGRES_MICROS = (-210_900_000_000_000_000, LAST_MICROSECOND)
"""Bounds since 1970, from 4713 BC on. Values beyond are infinity, or have overflowed in Debezium."""

_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
# beyond six digits of a fraction only zeros match: other digits would be lost
_ZONED = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})0*)?)?(Z|[+-]\d\d:\d\d)")

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class DebeziumType:
    """A kind in Debezium's JSON: `sent_as` is the Python type for msgspec, `to_arrow` converts values to a column."""

    sent_as: Any
    to_arrow: Callable[[Values, Column], pa.Array]


def debezium_type(column: Column) -> DebeziumType:
    """The form of this column's values in messages."""
    if column.kind is Kind.DOUBLE and column.type == NUMERIC:
        return _NEAREST
    return _AS_WRITTEN if column.array else _WIRES.get(column.kind, _TEXT)


def _plain(values: Values, column: Column) -> pa.Array:
    return pa.array(values, arrow_type(column))


def _decimals(values: Values, column: Column) -> pa.Array:
    return to_decimals(pa.array(values, pa.string()), column)


def _numerics(values: Values, column: Column) -> pa.Array:
    return pa.array([NOT_NUMBERS.get(value, value) for value in values], pa.string())


def _nearest(values: Values, column: Column) -> pa.Array:
    return nearest_doubles(_numerics(values, column))


def _floats(values: Values, column: Column) -> pa.Array:
    """Convert floats; Debezium sends NaN and infinity as text, since JSON has no such numbers."""
    if str in set(map(type, values)):
        values = [_float(value) if isinstance(value, str) else value for value in values]
    doubles = pa.array(values, pa.float64())
    if column.kind is Kind.DOUBLE:
        return doubles
    # the cast turns too large numbers into infinity without an error, even with safe=True
    narrow = pc.cast(doubles, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(narrow), pc.invert(pc.is_inf(doubles)))).as_py():
        raise ValueError("beyond a real")
    return narrow


def _float(text: str) -> float:
    if text not in _FLOATS:
        raise ValueError(f"no number: {text[:20]}")
    return _FLOATS[text]


def _dates(values: Values, column: Column) -> pa.Array:
    return pc.cast(_within(pa.array(values, pa.int32()), POSTGRES_DAYS, "infinity"), pa.date32())


def _timestamps(values: Values, column: Column) -> pa.Array:
    return pc.cast(_within(pa.array(values, pa.int64()), POSTGRES_MICROS, TOO_LATE), arrow_type(column))


def _within(numbers: pa.Array, bounds: tuple[int, int], otherwise: str) -> pa.Array:
    extremes = pc.min_max(numbers).as_py()
    # None where there are no values, or only nulls
    if extremes["min"] is not None and not (bounds[0] <= extremes["min"] and extremes["max"] <= bounds[1]):
        raise UnsupportedValueError(otherwise)
    return numbers


def _timestamps_with_zone(values: Values, column: Column) -> pa.Array:
    """Convert ISO 8601 texts: Arrow parses years of four digits, `_micros` the others."""
    try:
        return pc.cast(pa.array(values, pa.string()), arrow_type(column))
    except pa.ArrowInvalid:
        micros = [None if value is None else _micros(value) for value in values]
        first, last = POSTGRES_MICROS
        # checked while they are Python's integers: Arrow has only 64 bits
        if not all(first <= value <= last for value in micros if value is not None):
            raise UnsupportedValueError(TOO_LATE) from None
        return pc.cast(pa.array(micros, pa.int64()), arrow_type(column))


def _micros(text: str) -> int:
    found = _ZONED.fullmatch(text)
    if found is None:
        raise (
            UnsupportedValueError("infinity") if text.endswith("infinity") else ValueError(f"no timestamp: {text[:40]}")
        )
    # no datetime: it ends with year 9999, and Postgres with 294276
    year, month, day, hour, minute = (int(part) for part in found.group(1, 2, 3, 4, 5))
    seconds = days_of(year, month, day) * SECONDS_A_DAY + hour * 3600 + minute * 60 + int(found[6] or 0)
    fraction = int((found[7] or "").ljust(6, "0"))
    return (seconds - zone_offset(found[8].removeprefix("Z"))) * MICROS_A_SECOND + fraction


def _times(values: Values, column: Column) -> pa.Array:
    return pa.array([None if value is None else time_of_day(value) for value in values], pa.string())


def _geometric(values: Values, column: Column) -> pa.Array:
    return pa.array([None if value is None else as_postgres(value) for value in values], pa.string())


_TEXT = DebeziumType(str, _plain)
# our converter sends these as Postgres's own texts (`connect/plugin/PostgresText.java`)
_AS_WRITTEN = DebeziumType(str, from_text)
_NEAREST = DebeziumType(str, _nearest)
_WIRES: dict[Kind, DebeziumType] = {
    Kind.BOOLEAN: DebeziumType(bool, _plain),
    Kind.SMALLINT: DebeziumType(int, _plain),
    Kind.INTEGER: DebeziumType(int, _plain),
    Kind.BIGINT: DebeziumType(int, _plain),
    Kind.REAL: DebeziumType(float | str, _floats),
    Kind.DOUBLE: DebeziumType(float | str, _floats),
    Kind.DECIMAL: DebeziumType(str, _decimals),
    Kind.NUMERIC: DebeziumType(str, _numerics),
    Kind.BYTES: DebeziumType(bytes, _plain),
    Kind.DATE: DebeziumType(int, _dates),
    Kind.TIME: DebeziumType(int, _times),
    Kind.TIMESTAMP: DebeziumType(int, _timestamps),
    Kind.TIMESTAMPTZ: DebeziumType(str, _timestamps_with_zone),
    Kind.OID: DebeziumType(int, _plain),
    Kind.INTERVAL: _AS_WRITTEN,
    Kind.GEOMETRIC: DebeziumType(str, _geometric),
}
