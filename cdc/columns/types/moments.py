"""date, time, timestamp, timestamptz: days or microseconds since 1970, from 4713 BC on; times of day are text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.copied_fields import Field, check_supported, to_array
from cdc.columns.types.postgres_type import PostgresType, key_of, read_each
from cdc.columns.types.text_meaning import CALCULATED, Meaning, UseKind
from cdc.columns.types.texts import SHORT_TEXT, put_in_quotes
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind

MICROS_A_SECOND: Final = 1_000_000
SECONDS_A_DAY: Final = 86_400
LAST_MICROSECOND: Final = 9_223_371_244_799_999_999
"""The end of year 294246, the last whole year in 64 bits. Debezium's infinity is a day later."""
TOO_LATE: Final = "infinity, or a year beyond 294246"

# years have four digits or more: dates end with 5874897, timestamps with 294276
_DATE: Final = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)( BC)?")
_MOMENT: Final = re.compile(
    r"(\d{4,7})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?([+-]\d\d(?::\d\d){0,2})?( BC)?"
)
_TIME: Final = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
_DAYS: Final = (-2_440_953, 2_145_042_905)
_MICROS: Final = (-210_900_000_000_000_000, LAST_MICROSECOND)
"""Bounds since 1970, from 4713 BC on. Values beyond are infinity, or have overflowed in Debezium."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Days since 1970 of the years 1 to 9999, which have four digits."""
_DAY_MICROS: Final = MICROS_A_SECOND * SECONDS_A_DAY
_ERA_DAYS, _ERA_YEARS = 146_097, 400
_EPOCH_DAYS: Final = 10_957
"""From 1970, Arrow's epoch, to 2000, Postgres's."""
_EPOCH_MICROS: Final = _EPOCH_DAYS * _DAY_MICROS
_PLAIN, _IN_UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
# beyond six digits of a fraction only zeros match: other digits would be lost
_ZONED: Final = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})0*)?)?(Z|[+-]\d\d:\d\d)")


def parse_date(text: str) -> int:
    """Parse a date, such as `0044-03-15 BC`, to days since 1970.

    Raises UnsupportedValueError for infinity, ValueError for a text that is no date.
    """
    found = _DATE.fullmatch(text)
    if not found:
        # Postgres writes infinity and -infinity
        raise UnsupportedValueError("infinity") if text.endswith("infinity") else ValueError("no date")
    return days_of(_year(found[1], found[4]), int(found[2]), int(found[3]))


def parse_timestamp(text: str) -> int:
    """Parse a timestamp to microseconds since 1970; without a zone it is in UTC.

    Raises UnsupportedValueError for infinity and beyond 64 bits, ValueError for a text that is no timestamp.
    """
    found = _MOMENT.fullmatch(text)
    if not found:
        raise UnsupportedValueError("infinity") if text.endswith("infinity") else ValueError("no timestamp")
    day = days_of(_year(found[1], found[9]), int(found[2]), int(found[3]))
    second = int(found[4]) * 3600 + int(found[5]) * 60 + int(found[6]) - zone_offset(found[8])
    moment = (day * SECONDS_A_DAY + second) * MICROS_A_SECOND + int((found[7] or "").ljust(6, "0"))
    if moment > LAST_MICROSECOND:
        raise UnsupportedValueError(TOO_LATE)
    return moment


def parse_time(text: str) -> str:
    """Write a time of day with six digits of a second; Postgres leaves trailing zeros out."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError("no time of day")
    return f"{found[1]}.{(found[2] or '').ljust(6, '0')}"


def _year(digits: str, before_christ: str | None) -> int:
    # the calendar has no year 0: 1 BC is year 0 of the proleptic calendar
    return 1 - int(digits) if before_christ else int(digits)


def zone_offset(zone: str | None) -> int:
    """Parse a zone such as `-03:30` to seconds from UTC, positive in the east; 0 without a zone."""
    if not zone:
        return 0
    seconds = sum(int(part) * unit for part, unit in zip(zone[1:].split(":"), (3600, 60, 1), strict=False))
    return -seconds if zone[0] == "-" else seconds


def days_of(year: int, month: int, day: int) -> int:
    """Convert a date of the proleptic Gregorian calendar to days since 1970.

    After days_from_civil (Hinnant, "chrono-Compatible Low-Level Date Algorithms"): years begin in March, so the leap
    day is their last. `//` rounds down, also before year 0.
    """
    year -= month <= 2
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


def time_of_day(micros: int) -> str:
    """Write microseconds of a day as `23:59:59.000000`; Postgres also has 24:00."""
    if not 0 <= micros <= SECONDS_A_DAY * MICROS_A_SECOND:
        raise ValueError("no time of day")
    seconds, fraction = divmod(micros, MICROS_A_SECOND)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _read_dates(values: Sequence[Any], column: Column) -> pa.Array:
    return pc.cast(_within(pa.array(values, pa.int32()), _DAYS, "infinity"), pa.date32())


def _read_timestamps(values: Sequence[Any], column: Column) -> pa.Array:
    return pc.cast(_within(pa.array(values, pa.int64()), _MICROS, TOO_LATE), _PLAIN)


def _within(numbers: pa.Array, bounds: tuple[int, int], otherwise: str) -> pa.Array:
    extremes = pc.min_max(numbers).as_py()
    # None where there are no values, or only nulls
    if extremes["min"] is not None and not (bounds[0] <= extremes["min"] and extremes["max"] <= bounds[1]):
        raise UnsupportedValueError(otherwise)
    return numbers


def _read_zoned(values: Sequence[Any], column: Column) -> pa.Array:
    """Convert ISO 8601 texts: Arrow parses years of four digits, `_to_micros` the others."""
    try:
        return pc.cast(pa.array(values, pa.string()), _IN_UTC)
    except pa.ArrowInvalid:
        micros = [None if value is None else _to_micros(value) for value in values]
        first, last = _MICROS
        # checked while they are Python's integers: Arrow has only 64 bits
        if not all(first <= value <= last for value in micros if value is not None):
            raise UnsupportedValueError(TOO_LATE) from None
        return pc.cast(pa.array(micros, pa.int64()), _IN_UTC)


def _to_micros(text: str) -> int:
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


def _copied_dates(field: Field, column: Column) -> pa.Array:
    days = field.head(">i4").astype(np.int32)
    check_supported(field.there, (days != np.iinfo(np.int32).min) & (days != np.iinfo(np.int32).max), "infinity")
    # a NULL may have any number here: the sum in 64 bits cannot overflow
    return to_array(pa.date32(), field.there, (days.astype(np.int64) + _EPOCH_DAYS).astype(np.int32))


def _copied_timestamps(field: Field, arrow: pa.DataType) -> pa.Array:
    # -infinity is the smallest number; infinity is the largest, and so too late anyway
    since = field.head(">i8").astype(np.int64)
    fit = (since != np.iinfo(np.int64).min) & (since <= LAST_MICROSECOND - _EPOCH_MICROS)
    check_supported(field.there, fit, TOO_LATE)
    return to_array(arrow, field.there, since + _EPOCH_MICROS)


def _write_dates(array: pa.Array) -> pa.Array:
    return _write(array, pc.cast(array, pa.int32()).cast(pa.int64()), lambda text: text, _write_day)


def _write_timestamps(array: pa.Array, zone: str = "") -> pa.Array:
    # Integer division would round towards 1970, so floats. They may err by microseconds at midnight; that only matters
    # at the first and last usual day, where both branches write the same text.
    days = pc.floor(pc.divide(pc.cast(array, pa.int64()).cast(pa.float64(), safe=False), float(_DAY_MICROS)))
    plain = array.cast(_PLAIN)
    # years of four digits: the blank is always at the same place
    return _write(
        plain, pc.cast(days, pa.int64()), lambda text: pc.binary_replace_slice(text, 10, 11, "T"), _write_moment, zone
    )


def _write(
    array: pa.Array,
    days: pa.Array,
    shaped: Callable[[pa.Array], pa.Array],
    written: Callable[[int], str],
    zone: str = "",
) -> pa.Array:
    """Write dates or timestamps as Arrow does; those without a four-digit year are written by `written`."""
    usual = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    if pc.all(pc.fill_null(usual, True)).as_py():
        return put_in_quotes(shaped(pc.cast(array, pa.string())), zone)
    text = shaped(pc.cast(pc.if_else(usual, array, None), pa.string()))
    odd = pc.fill_null(pc.invert(usual), False)
    numbers = array.filter(odd).cast(pa.int32() if pa.types.is_date(array.type) else pa.int64()).to_pylist()
    return put_in_quotes(pc.replace_with_mask(text, odd, pa.array([written(number) for number in numbers])), zone)


def _write_day(days: int) -> str:
    """Write a date of any year, `+12024-02-29` or `-0044-03-15`: shift it by whole eras into Python's years."""
    eras = days // _ERA_DAYS
    near = date(1970, 1, 1) + timedelta(days=days - eras * _ERA_DAYS)
    year = near.year + eras * _ERA_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{near:%m-%d}"


def _write_moment(micros: int) -> str:
    days, of_day = divmod(micros, _DAY_MICROS)
    return f"{_write_day(days)}T{time_of_day(of_day)}"


DATE: Final = PostgresType(
    Kind.DATE,
    names=("date",),
    wider=("text",),
    arrow=pa.date32(),
    sent_as=int,
    from_log=_read_dates,
    from_text=read_each(parse_date, pa.date32(), pa.int32()),
    copied_width=4,
    from_copy=_copied_dates,
    to_json=_write_dates,
    key=key_of(pa.int32()),
    # years beyond four digits are stored but not indexed, so that they do not stop the table
    index={"type": "date", "format": "strict_date", "ignore_malformed": True},
    exact="exact from 4713 BC to 5874897; infinity is refused, but as text",
)
TIME: Final = replace(
    SHORT_TEXT,
    kind=Kind.TIME,
    names=("time",),
    sent_as=int,
    from_log=read_each(time_of_day, pa.string()),
    from_text=read_each(parse_time, pa.string()),
    # six decimals, as in the log: `::text` leaves trailing zeros out
    selected="to_char({}, 'HH24:MI:SS.US')",
    meaning=Meaning(
        "is a time of day, text in the lake",
        CALCULATED | {UseKind.LITERAL},
        "write a literal with six digits of a second, '12:30:00.000000', or cast {name}",
        re.compile(r"\d\d:\d\d:\d\d\.\d{6}").fullmatch,
    ),
    exact="exact, 24:00 too",
)
TIMESTAMP: Final = replace(
    DATE,
    kind=Kind.TIMESTAMP,
    names=("timestamp",),
    arrow=_PLAIN,
    from_log=_read_timestamps,
    from_text=read_each(parse_timestamp, _PLAIN, pa.int64()),
    copied_width=8,
    from_copy=lambda field, _: _copied_timestamps(field, _PLAIN),
    to_json=_write_timestamps,
    key=key_of(pa.int64()),
    index={"type": "date", "format": "strict_date_optional_time", "ignore_malformed": True},
    exact="exact from 4713 BC to the end of 294246; infinity is refused, but as text",
)
TIMESTAMPTZ: Final = replace(
    TIMESTAMP,
    kind=Kind.TIMESTAMPTZ,
    names=("timestamptz",),
    arrow=_IN_UTC,
    sent_as=str,
    from_log=_read_zoned,
    from_text=read_each(parse_timestamp, _IN_UTC, pa.int64()),
    from_copy=lambda field, _: _copied_timestamps(field, _IN_UTC),
    to_json=partial(_write_timestamps, zone="Z"),
    exact="exact from 4713 BC to the end of 294246, in UTC; infinity is refused, but as text",
)
