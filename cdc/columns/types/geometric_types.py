"""Geometric types: converts the numbers of Debezium's driver back to Postgres's text."""

import re
from dataclasses import replace
from decimal import Decimal
from math import isfinite
from typing import Final

import pyarrow as pa

from cdc.columns.types.postgres_type import read_each
from cdc.columns.types.text_meaning import AS_NUMBERS, IN_SOURCE, Meaning
from cdc.columns.types.texts import SHORT_TEXT
from cdc.core.table import Kind

_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN")
_FIRST_FIXED, _FIRST_SCIENTIFIC = -4, 15


def as_postgres(text: str) -> str:
    """Convert `(1.0,-2.0E300)` to `(1,-2e+300)`: the same doubles, in Postgres's form."""
    return _NUMBER.sub(lambda number: double(float(number[0])), text)


def double(number: float) -> str:
    """Write a double as Postgres does: the shortest text that names it (manual, "Floating-Point Types").

    The exponent decides between fixed and scientific notation, with the bounds of Postgres's `d2s.c`.
    """
    if not isfinite(number):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0:
        # -0.0 equals 0.0: only its text has the sign
        return "-0" if str(number).startswith("-") else "0"
    # repr writes the shortest text that names the double, as Postgres does
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    place = len(digits) + exponent - 1
    written, minus = "".join(map(str, digits)), "-" * sign
    if _FIRST_FIXED <= place < _FIRST_SCIENTIFIC:
        return minus + f"{Decimal((0, digits, exponent)):f}"
    point = "." if len(digits) > 1 else ""
    return f"{minus}{written[0]}{point}{written[1:]}e{'-' if place < 0 else '+'}{abs(place):02}"


GEOMETRIC: Final = replace(
    SHORT_TEXT,
    kind=Kind.GEOMETRIC,
    names=("point", "line", "lseg", "box", "path", "polygon", "circle"),
    has_name=True,
    is_out_of_line=True,
    from_log=read_each(as_postgres, pa.string()),
    is_sent_whole=False,
    meaning=Meaning("is a geometric type, text in the lake", AS_NUMBERS, IN_SOURCE),
    exact="exact, every double of it",
)
