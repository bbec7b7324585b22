"""Functions that are one call in DuckDB, of a function or macro: the types that they take, and the one they give."""

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    TEXT,
    TIMESTAMP,
    is_floating,
    is_integral,
    is_moment,
)
from cdc.views.statement.dialect.values import Value, require
from cdc.views.statement.entrance.kinds import Kind

Accepts = Callable[[T.DataType], bool]


def _one_of(*types: T.DataType) -> Accepts:
    return lambda of: of in types


def _is_array(of: T.DataType) -> bool:
    return isinstance(of, T.ArrayType)


def is_day(of: T.DataType) -> bool:
    """A date, or a timestamp, which Spark casts to its date."""
    return of == DATE or is_moment(of)


_text, _text_or_bytes, _days = _one_of(TEXT), _one_of(TEXT, BYTES), _one_of(SHORT, INTEGER)
_CALLS: Final[Sequence[tuple[Kind, str, str, Sequence[Accepts], T.DataType]]] = (
    (exp.Upper, "this", "spark_upper", [_text], TEXT),
    (exp.Lower, "this", "spark_lower", [_text], TEXT),
    (exp.MD5, "this", "md5", [_text_or_bytes], TEXT),
    (exp.StrPosition, "this substr", "spark_instr", [_text, _text], INTEGER),
    (exp.StartsWith, "this expression", "starts_with", [_text, _text], BOOLEAN),
    (exp.EndsWith, "this expression", "ends_with", [_text, _text], BOOLEAN),
    (exp.Contains, "this expression", "contains", [_text, _text], BOOLEAN),
    (exp.ArraySize, "this", "spark_size", [_is_array], INTEGER),
    ("cardinality", "expressions", "spark_size", [_is_array], INTEGER),
    (exp.IsNan, "this", "spark_isnan", [is_floating], BOOLEAN),
    (exp.Sign, "this", "spark_sign", [is_integral], DOUBLE),
    (exp.IntDiv, "this expression", "spark_div", [is_integral, is_integral], LONG),
    (exp.TsOrDsToDate, "this", "spark_date", [is_day], DATE),
    (exp.Year, "this", "spark_year", [is_day], INTEGER),
    (exp.Quarter, "this", "spark_quarter", [is_day], INTEGER),
    (exp.Month, "this", "spark_month", [is_day], INTEGER),
    (exp.Day, "this", "spark_day", [is_day], INTEGER),
    (exp.DayOfMonth, "this", "spark_day", [is_day], INTEGER),
    (exp.DayOfYear, "this", "spark_dayofyear", [is_day], INTEGER),
    (exp.WeekOfYear, "this", "spark_week", [is_day], INTEGER),
    (exp.DayOfWeek, "this", "spark_dayofweek", [is_day], INTEGER),
    ("weekday", "expressions", "spark_weekday", [is_day], INTEGER),
    (exp.Hour, "this", "spark_hour", [is_moment], INTEGER),
    (exp.Minute, "this", "spark_minute", [is_moment], INTEGER),
    (exp.Second, "this", "spark_second", [is_moment], INTEGER),
    (exp.UnixMicros, "this", "epoch_us", [_one_of(TIMESTAMP)], LONG),
    (exp.TsOrDsAdd, "this expression", "spark_date_add", [is_day, _days], DATE),
    (exp.DateDiff, "this expression", "spark_datediff", [is_day, is_day], INTEGER),
    (exp.AddMonths, "this expression", "spark_add_months", [is_day, _days], DATE),
    (exp.LastDay, "this", "spark_last_day", [is_day], DATE),
)
"""Kind, arguments, function of DuckDB, types of the arguments, type of the result."""
_NO_ARGUMENTS: Final[dict[Kind, str]] = {exp.TsOrDsAdd: "unit", exp.TsOrDsToDate: "safe"}
"""What sqlglot puts into a node by itself."""


def call(name: str, values: Sequence[Value], accepts: Sequence[Accepts], gives: T.DataType) -> Value:
    """A call of a function, if the values have the types that it is proven for."""
    require(len(values) == len(accepts), "with arguments that nobody has tried")
    for value, is_accepted in zip(values, accepts, strict=True):
        require(is_accepted(value.type), f"of {value.type.simpleString()}")
    return Value(f"{name}({', '.join(value.sql for value in values)})", gives)


def _enter(kind: Kind, arguments: str, name: str, accepts: Sequence[Accepts], gives: T.DataType) -> None:
    names = arguments.split()

    @proven(kind, *names, "this", _NO_ARGUMENTS.get(kind, "this"))
    def write(t: Translator, node: exp.Expr) -> Value:
        parts = node.expressions if names == ["expressions"] else [node.args[each] for each in names]
        return call(name, [t.value(part) for part in parts], accepts, gives)


for _each in _CALLS:
    _enter(*_each)
