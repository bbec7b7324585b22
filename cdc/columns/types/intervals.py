"""interval: converts the texts of Postgres and of its driver to one form of ISO 8601.

Months, days and microseconds stay separate, as in Postgres: a month has no fixed number of days (manual, "Interval
Input").
"""

import re
from dataclasses import replace
from typing import Final

import pyarrow as pa

from cdc.columns.types.copied_fields import to_texts
from cdc.columns.types.postgres_type import read_each
from cdc.columns.types.text_meaning import AS_NUMBERS, IN_SOURCE, Meaning
from cdc.columns.types.texts import SHORT_TEXT
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Kind

_FIELD: Final = re.compile(r"([+-]?\d+)(?:\.(\d+))? (year|mon|day|hour|min|sec)s?\b")
_CLOCK: Final = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?$")
_MONTHS: Final = {"year": 12, "mon": 1}
_MICROS: Final = {"hour": 3_600_000_000, "min": 60_000_000, "sec": 1_000_000}


def to_iso(text: str) -> str:
    """Convert an interval to `P1Y2M-3DT4H5M6.5S`, Postgres's form for IntervalStyle `iso_8601`.

    Reads `1 year 2 mons -3 days +04:05:06.5`, and the driver's `1 years 2 mons -3 days 4 hours 5 mins 6.5 secs`.
    Raises UnsupportedValueError for infinity, ValueError for a text that is no interval.
    """
    months = days = micros = 0
    clock, fields = _CLOCK.search(text), list(_FIELD.finditer(text))
    if not clock and not fields:
        raise UnsupportedValueError("infinity") if "infinity" in text else ValueError("no interval")
    for field in fields:
        number, unit = int(field[1]), field[3]
        months += number * _MONTHS.get(unit, 0)
        days += number if unit == "day" else 0
        # in -0.5 secs the whole part is 0: only the text has the sign
        micros += number * _MICROS.get(unit, 0) + _fraction(field[2], -1 if field[1].startswith("-") else 1)
    if clock:
        whole = int(clock[2]) * _MICROS["hour"] + int(clock[3]) * _MICROS["min"] + int(clock[4]) * _MICROS["sec"]
        whole += _fraction(clock[5])
        # one sign for hours, minutes and seconds together
        micros += -whole if clock[1] == "-" else whole
    return _format_iso(months, days, micros)


def _fraction(digits: str | None, sign: int = 1) -> int:
    return sign * int((digits or "").ljust(6, "0")[:6])


def _format_iso(months: int, days: int, micros: int) -> str:
    """Write like `EncodeInterval` (Postgres source, datetime.c): each part with its own sign, zeros left out."""
    years, months = _parts(months, 12)
    seconds, fraction = _parts(micros, 1_000_000)
    minutes, seconds = _parts(seconds, 60)
    hours, minutes = _parts(minutes, 60)
    date = "".join(f"{number}{unit}" for number, unit in ((years, "Y"), (months, "M"), (days, "D")) if number)
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction:
        sign, digits = "-" if micros < 0 else "", f"{abs(fraction):06}".rstrip("0")
        time += f"{sign}{abs(seconds)}{'.' if digits else ''}{digits}S"
    return f"P{date}{'T' if time else ''}{time}" if date or time else "PT0S"


def _parts(number: int, of: int) -> tuple[int, int]:
    """Divide by `of`, rounding towards 0: quotient and remainder both have the number's sign."""
    whole, rest = divmod(abs(number), of)
    return (-whole, -rest) if number < 0 else (whole, rest)


_read = read_each(to_iso, pa.string())
INTERVAL: Final = replace(
    SHORT_TEXT,
    kind=Kind.INTERVAL,
    names=("interval",),
    wider=("text",),
    from_log=_read,
    is_sent_whole=False,
    from_text=_read,
    # the binary form is not worth parsing
    from_copy=lambda field, column: _read(to_texts(field).to_pylist(), column),
    meaning=Meaning("is an interval, text in ISO 8601 in the lake", AS_NUMBERS, IN_SOURCE),
    exact="exact, in ISO 8601; infinity is refused, but as text",
)
