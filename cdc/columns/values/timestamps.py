"""Parses Postgres's dates and times in ISO form, to days or microseconds since 1970, or times of day."""

import re
from typing import Final

from cdc.columns.values.unsupported import UnsupportedValueError

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
