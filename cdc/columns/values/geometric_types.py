"""Points and what is made of them: numbers that Debezium's driver has read, written again as Postgres writes them."""

import re
from decimal import Decimal
from math import isfinite
from typing import Final

_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN")
_FIRST_FIXED, _FIRST_SCIENTIFIC = -4, 15


def as_postgres(text: str) -> str:
    """`(1.0,-2.0E300)` as `(1,-2e+300)`: both name the same doubles."""
    return _NUMBER.sub(lambda number: double(float(number[0])), text)


def double(number: float) -> str:
    """The shortest text that names this double, as Postgres writes it (manual, "Floating-Point Types").

    By the exponent it is written out or in powers of ten, at the borders that `d2s.c` has.
    """
    if not isfinite(number):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0:
        return "-0" if str(number).startswith("-") else "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    place = len(digits) + exponent - 1
    written, minus = "".join(map(str, digits)), "-" * sign
    if _FIRST_FIXED <= place < _FIRST_SCIENTIFIC:
        return minus + f"{Decimal((0, digits, exponent)):f}"
    point = "." if len(digits) > 1 else ""
    return f"{minus}{written[0]}{point}{written[1:]}e{'-' if place < 0 else '+'}{abs(place):02}"
