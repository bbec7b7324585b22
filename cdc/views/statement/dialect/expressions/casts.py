"""Casts. A text is read in one form only; for others DuckDB has an error, and Spark is asked."""

from collections.abc import Callable

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.expressions.literals import text_of
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LOCAL_TIMESTAMP,
    LONG,
    LONGEST_EXACT,
    SHORT,
    TEXT,
    TIMESTAMP,
    decimal,
    duckdb_type,
    is_floating,
    is_integral,
    is_moment,
)
from cdc.views.statement.dialect.values import NotProvenError, Value, require

_TYPES: dict[exp.DType, T.DataType] = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: T.ByteType(),
    exp.DType.SMALLINT: SHORT,
    exp.DType.INT: INTEGER,
    exp.DType.BIGINT: LONG,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: TEXT,
    exp.DType.BINARY: BYTES,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: LOCAL_TIMESTAMP,
}
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = rf"{_DATE}( ([01][0-9]|2[0-3]):[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
_FORMS: dict[T.DataType, str] = {
    DATE: _DATE,
    TIMESTAMP: _MOMENT,
    LOCAL_TIMESTAMP: _MOMENT,
    SHORT: "-?[0-9]{1,18}",
    INTEGER: "-?[0-9]{1,18}",
    LONG: "-?[0-9]{1,18}",
}
"""The form of a text that both engines read as the same value of a type, or have an error for."""


def type_of(node: exp.DataType) -> T.DataType:
    """Spark's type of a cast's target."""
    if node.this == exp.DType.DECIMAL:
        parameters = [int(part.name) for part in node.expressions]
        return T.DecimalType(*parameters)
    require(node.this in _TYPES and not node.expressions, "to this type")
    return _TYPES[node.this]


@proven(exp.Cast, "this", "to")
@proven(exp.TryCast, "this", "to")
def write_cast(t: Translator, node: exp.Cast | exp.TryCast) -> Value:
    """`CAST(x AS type)`, typed literals, and the suffixes of numbers. sqlglot reads Spark's CAST as TRY_CAST."""
    to = type_of(node.to)
    if isinstance(node.this, exp.Literal) and node.this.is_string and isinstance(to, T.DecimalType):
        # 1.5BD, or a text of digits
        return Value(f"CAST({_digits(text_of(node.this))} AS {duckdb_type(to)})", to)
    value = cast(t.value(node.this), to)
    # whether the user wrote 2L or CAST(2 AS BIGINT), sqlglot does not say; they differ beside a decimal
    return Value(value.sql, to, -1 if isinstance(node.this, exp.Literal) and is_integral(to) else 0)


def _digits(text: str) -> str:
    require(text.removeprefix("-").replace(".", "", 1).isdecimal() and text[-1:].isdecimal(), "of another text")
    require(text.isascii(), "of another text")
    return f"'{text}'"


def cast(value: Value, to: T.DataType) -> Value:
    """The value cast to a type, with an error where Spark has one."""
    for accepts, write in _CASTS:
        if accepts(value.type, to):
            return write(value, to)
    raise NotProvenError(f"{value.type.simpleString()} to {to.simpleString()}")


def _plain(value: Value, to: T.DataType) -> Value:
    return value if value.type == to else Value(f"CAST({value.sql} AS {duckdb_type(to)})", to)


def _cut(value: Value, to: T.DataType) -> Value:
    """Spark cuts digits behind the point, where DuckDB rounds."""
    return Value(f"CAST(trunc({value.sql}) AS {duckdb_type(to)})", to)


def _is_not_zero(value: Value, _: T.DataType) -> Value:
    return Value(f"({value.sql} <> 0)", BOOLEAN)


def _moment_to_date(value: Value, _: T.DataType) -> Value:
    return Value(f"CAST({value.sql} AS DATE)", DATE)


def _time_to_text(value: Value, to: T.DataType) -> Value:
    return Value(f"spark_time_to_text({value.sql})", to)


def _decimal_to_text(value: Value, to: T.DataType) -> Value:
    """Of a decimal without digits before the point, DuckDB writes no zero there."""
    of = value.type
    assert isinstance(of, T.DecimalType)
    if of.precision > of.scale:
        return _plain(value, to)
    wider = decimal(of.precision + 1, of.scale)
    if wider is None:
        raise NotProvenError(f"{of.simpleString()} to string")
    return _plain(_plain(value, wider), to)


def _read_text(value: Value, to: T.DataType) -> Value:
    return Value(f"CAST(text_of_form({value.sql}, '{_FORMS[to]}') AS {duckdb_type(to)})", to)


def _encode(value: Value, _: T.DataType) -> Value:
    """DuckDB's cast would read escapes."""
    return Value(f"encode({value.sql})", BYTES)


Accepts = Callable[[T.DataType, T.DataType], bool]
Cast = Callable[[Value, T.DataType], Value]


def _is_exact(of: T.DataType) -> bool:
    return is_integral(of) or isinstance(of, T.DecimalType)


_CASTS: list[tuple[Accepts, Cast]] = [
    (lambda of, to: of == to, _plain),
    (lambda of, to: isinstance(of, T.DecimalType) and is_integral(to), _cut),
    (lambda of, to: is_floating(of) and is_integral(to), _cut),
    (lambda of, to: _is_exact(of) and _is_exact(to), _plain),
    (lambda of, to: is_integral(of) and to == TEXT, _plain),
    (lambda of, to: isinstance(of, T.DecimalType) and to == TEXT, _decimal_to_text),
    (lambda of, to: _is_exact(of) and to == BOOLEAN, _is_not_zero),
    (lambda of, to: is_integral(of) and to == DOUBLE, _plain),
    (lambda of, to: isinstance(of, T.DecimalType) and of.precision <= LONGEST_EXACT and to == DOUBLE, _plain),
    (lambda of, to: of == FLOAT and to == DOUBLE, _plain),
    (lambda of, to: of == BOOLEAN and (is_integral(to) or to == TEXT), _plain),
    (lambda of, to: (of == DATE or is_moment(of)) and to == TEXT, _time_to_text),
    (lambda of, to: of == DATE and is_moment(to), _plain),
    (lambda of, to: is_moment(of) and to == DATE, _moment_to_date),
    (lambda of, to: is_moment(of) and is_moment(to), lambda value, to: Value(value.sql, to)),
    (lambda of, to: of == TEXT and to in _FORMS, _read_text),
    (lambda of, to: of == TEXT and to == BYTES, _encode),
]
"""The casts that are proven, the first that accepts counts."""
