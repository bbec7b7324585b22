"""Numbers of Postgres as decimals of a fixed precision and scale, digit for digit.

Arrow's own cast from text is exact only for numbers that fit: of others it may keep the lower 128 bits without an error
(`9999999999.99` as decimal(38,38) gives 0.179…). So the texts are checked first.
"""

from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.values.arrow_types import arrow_type
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import Column

NOT_NUMBERS: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Debezium's texts for a numeric that is no number → Postgres's."""
_NOT_FINITE: Final = pa.array([*NOT_NUMBERS, *NOT_NUMBERS.values()])
_NUMBER: Final = r"^-?\d+(\.\d+)?$"


def to_decimals(texts: pa.Array, column: Column) -> pa.Array:
    """Convert numerics, as Postgres or Debezium writes them, to the column's decimals; nothing is rounded.

    Zeros behind the last digit of the scale may be there: 1.000 is 1.00. Raises UnsupportedValueError for NaN, infinity
    and a number that has more digits, ValueError for a text that is no number.
    """
    if not _all_match(texts, _fitting(column.precision, column.scale)):
        texts = pc.replace_substring_regex(texts, _trailing_zeros(column.scale), r"\1")
        _check_fit(texts, column)
    return pc.cast(texts, arrow_type(column))


def _check_fit(texts: pa.Array, column: Column) -> None:
    if _all_match(texts, _fitting(column.precision, column.scale)):
        return
    if pc.any(pc.is_in(texts, _NOT_FINITE)).as_py():
        raise UnsupportedValueError("NaN or infinity" if column.chosen else "NaN")
    # what Postgres declares bounds its numbers: such a one is of another column than this
    if not column.chosen or not _all_match(texts, _NUMBER):
        raise ValueError("no number")
    raise UnsupportedValueError(f"a number beyond decimal({column.precision},{column.scale})")


def _all_match(texts: pa.Array, pattern: str) -> bool:
    # null where there are only nulls
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


@cache
def _fitting(precision: int, scale: int) -> str:
    """A pattern of the numbers with so many digits, as they are written without leading zeros."""
    whole = rf"\d{{1,{precision - scale}}}" if precision > scale else "0"
    return rf"^-?{whole}(\.\d{{1,{scale}}})?$" if scale else rf"^-?{whole}$"


@cache
def _trailing_zeros(scale: int) -> str:
    return rf"^(-?\d+\.\d{{{scale}}})0+$" if scale else r"^(-?\d+)\.0+$"
