"""Spark's types of expressions, and the types of DuckDB that hold the same values.

Types are derived here, by Spark's rules of ANSI mode, and not by sqlglot's `annotate_types`: that takes decimal
literals for doubles, keeps the precision of the first operand of decimal arithmetic, and gives `date - date` a date.
Every field and element counts as nullable.
"""

from typing import Final

from pyspark.sql import types as T

BOOLEAN: Final = T.BooleanType()
SHORT: Final = T.ShortType()
INTEGER: Final = T.IntegerType()
LONG: Final = T.LongType()
FLOAT: Final = T.FloatType()
DOUBLE: Final = T.DoubleType()
TEXT: Final = T.StringType()
BYTES: Final = T.BinaryType()
DATE: Final = T.DateType()
TIMESTAMP: Final = T.TimestampType()
LOCAL_TIMESTAMP: Final = T.TimestampNTZType()
NOTHING: Final = T.NullType()

MOST_DIGITS: Final = 38
LONGEST_EXACT: Final = 15
"""Digits of a decimal whose double is exact in both engines: 10^15 and the power of ten below it are doubles."""

_DIGITS: Final[dict[T.DataType, int]] = {T.ByteType(): 3, SHORT: 5, INTEGER: 10, LONG: 20}
"""Integers from narrow to wide, with the digits that Spark gives them as decimals."""
_WIDTHS: Final = list(_DIGITS)
_NAMES: Final[dict[T.DataType, str]] = {
    BOOLEAN: "BOOLEAN",
    T.ByteType(): "TINYINT",
    SHORT: "SMALLINT",
    INTEGER: "INTEGER",
    LONG: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    TEXT: "VARCHAR",
    BYTES: "BLOB",
    DATE: "DATE",
    # the session's zone is UTC: a moment and a local time are the same microseconds, and no function asks for a zone
    TIMESTAMP: "TIMESTAMP",
    LOCAL_TIMESTAMP: "TIMESTAMP",
    NOTHING: "INTEGER",
}


class UnorderedArrayType(T.ArrayType):
    """The type of `collect_list` and `collect_set`: nothing may depend on the order of the elements."""


def duckdb_type(of: T.DataType) -> str:
    """The type of DuckDB that holds the values of a Spark type."""
    if isinstance(of, T.DecimalType):
        return f"DECIMAL({of.precision}, {of.scale})"
    if isinstance(of, T.ArrayType):
        return f"{duckdb_type(of.elementType)}[]"
    if isinstance(of, T.StructType):
        return f"STRUCT({', '.join(f'{quote(field.name)} {duckdb_type(field.dataType)}' for field in of.fields)})"
    return _NAMES[of]


def quote(name: str) -> str:
    """A name as an identifier of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def is_integral(of: T.DataType) -> bool:
    return of in _DIGITS


def is_floating(of: T.DataType) -> bool:
    return isinstance(of, T.FractionalType) and not isinstance(of, T.DecimalType)


def is_decimal(of: T.DataType) -> bool:
    return isinstance(of, T.DecimalType)


def is_moment(of: T.DataType) -> bool:
    return of in (TIMESTAMP, LOCAL_TIMESTAMP)


def is_orderable(of: T.DataType) -> bool:
    """Scalars whose order and equality are the same in both engines, zeros of both signs and NaN among them."""
    return isinstance(of, T.NumericType) or of in (BOOLEAN, TEXT, BYTES, DATE, TIMESTAMP, LOCAL_TIMESTAMP)


def is_identified(of: T.DataType) -> bool:
    """Orderable, and equal values are the same value: not so 0.0 and -0.0, of which a group keeps any."""
    return is_orderable(of) and not is_floating(of)


def as_decimal(of: T.DataType) -> T.DecimalType | None:
    """The decimal that holds every value of an integer or decimal type."""
    if isinstance(of, T.DecimalType):
        return of
    return T.DecimalType(_DIGITS[of], 0) if of in _DIGITS else None


def decimal(digits: int, scale: int) -> T.DecimalType | None:
    """A decimal type, or none where Spark would cut its digits."""
    return T.DecimalType(digits, scale) if digits <= MOST_DIGITS else None


def common_type(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """The type to which Spark brings two values to compare, or to choose from; none where it is not proven."""
    if other in (one, NOTHING):
        return one
    if one == NOTHING:
        return other
    if one in _DIGITS and other in _DIGITS:
        return max(one, other, key=_WIDTHS.index)
    if DATE in (one, other) and (is_moment(one) or is_moment(other)):
        return other if one == DATE else one
    return _common_fraction(one, other)


def _common_fraction(one: T.DataType, other: T.DataType) -> T.DataType | None:
    types = (one, other)
    if not all(isinstance(each, T.NumericType) for each in types):
        return None
    if any(is_floating(each) for each in types):
        decimals = [each for each in types if isinstance(each, T.DecimalType)]
        return DOUBLE if all(each.precision <= LONGEST_EXACT for each in decimals) else None
    mine, theirs = as_decimal(one), as_decimal(other)
    assert mine is not None
    assert theirs is not None
    scale = max(mine.scale, theirs.scale)
    return decimal(max(mine.precision - mine.scale, theirs.precision - theirs.scale) + scale, scale)
