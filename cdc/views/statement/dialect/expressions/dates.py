"""Dates and timestamps. The session's zone is UTC in both engines, and their calendar has no Julian years."""

from sqlglot import exp

from cdc.views.statement.dialect.expressions.calls import Accepts, call, is_day
from cdc.views.statement.dialect.expressions.literals import text_of
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import DATE, INTEGER, TIMESTAMP, is_moment
from cdc.views.statement.dialect.values import NotProvenError, Value, require, retype

_FIELDS: dict[str, tuple[str, Accepts]] = {
    **{each.upper(): (f"spark_{each}", is_day) for each in ("year", "quarter", "month", "day", "week", "dayofweek")},
    "DOY": ("spark_dayofyear", is_day),
    **{each.upper(): (f"spark_{each}", is_moment) for each in ("hour", "minute")},
}
_DAY_UNITS: dict[str, str] = {
    "YEAR": "year",
    "YYYY": "year",
    "YY": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "MM": "month",
    "MON": "month",
    "WEEK": "week",
}
_UNITS = {**_DAY_UNITS, "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second"}
_INTERVALS = frozenset(("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"))
_OF_DAYS = frozenset(("YEAR", "MONTH", "WEEK", "DAY"))


@proven(exp.Extract, "this", "expression")
def write_extract(t: Translator, node: exp.Extract) -> Value:
    """`extract(field FROM x)`; seconds have a fraction there, and are left off."""
    field = node.name.upper()
    require(field in _FIELDS, f"of {field.lower()}")
    name, accepts = _FIELDS[field]
    return call(name, [t.value(node.expression)], [accepts], INTEGER)


@proven(exp.TimestampTrunc, "this", "unit")
def write_truncated_timestamp(t: Translator, node: exp.TimestampTrunc) -> Value:
    """`date_trunc(unit, x)`: a timestamp with zone, whatever x is. Weeks begin on Monday."""
    unit = node.args["unit"].name.upper()
    require(unit in _UNITS, f"to {unit.lower()}")
    value = t.value(node.this)
    value = retype(value, TIMESTAMP) if value.type == DATE else value
    require(is_moment(value.type), f"of {value.type.simpleString()}")
    return Value(f"CAST(date_trunc('{_UNITS[unit]}', {value.sql}) AS TIMESTAMP)", TIMESTAMP)


@proven(exp.DateTrunc, "this", "unit")
def write_truncated_date(t: Translator, node: exp.DateTrunc) -> Value:
    """`trunc(x, unit)`: a date."""
    unit = text_of(node.args["unit"]).upper()
    require(unit in _DAY_UNITS, f"to {unit.lower()}")
    day = call("spark_date", [t.value(node.this)], [is_day], DATE)
    return Value(f"CAST(date_trunc('{_DAY_UNITS[unit]}', {day.sql}) AS DATE)", DATE)


def is_interval_sum(node: exp.Binary) -> bool:
    """Is it `x + INTERVAL` or `x - INTERVAL`?"""
    return isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval)


def add_interval(t: Translator, node: exp.Binary) -> Value:
    """`x + INTERVAL '1' DAY`: of a timestamp a timestamp; of a date, and whole days, a date."""
    interval, value = node.expression, t.value(node.this)
    unit, count = interval.args.get("unit"), interval.this
    require(isinstance(unit, exp.Var) and isinstance(count, exp.Literal), "an interval of several units")
    name = unit.name.upper().removesuffix("S")
    require(name in _INTERVALS and count.name.isdecimal() and len(count.name) <= 6, "this interval")
    symbol = "+" if isinstance(node, exp.Add) else "-"
    moved = f"{value.sql} {symbol} INTERVAL '{int(count.name)}' {name}"
    if value.type == DATE:
        require(name in _OF_DAYS, "hours of a date")
        return Value(f"CAST({moved} AS DATE)", DATE)
    if not is_moment(value.type):
        raise NotProvenError(f"an interval and {value.type.simpleString()}")
    return Value(f"CAST({moved} AS TIMESTAMP)", value.type)
