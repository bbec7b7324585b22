"""Dates and timestamps. The session's zone is UTC in both engines, and their calendar has no Julian years."""

from sqlglot import exp

from cdc.views.statement.dialect.literals import text_of
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import DATE, INTEGER, LONG, SHORT, TIMESTAMP, is_moment
from cdc.views.statement.dialect.values import NotProvenError, Value, require, retype

_PARTS: dict[type[exp.Expr] | str, str] = {
    exp.Year: "year({})",
    exp.Quarter: "quarter({})",
    exp.Month: "month({})",
    exp.Day: "day({})",
    exp.DayOfMonth: "day({})",
    exp.DayOfYear: "dayofyear({})",
    exp.WeekOfYear: "week({})",
    # Sunday is 1 in Spark, 0 in DuckDB
    exp.DayOfWeek: "dayofweek({}) + 1",
    # Monday is 0 in Spark, 1 in DuckDB
    "weekday": "isodow({}) - 1",
}
_CLOCK: dict[type[exp.Expr] | str, str] = {
    exp.Hour: "hour({})",
    exp.Minute: "minute({})",
    exp.Second: "second({})",
}
_FIELDS: dict[str, str] = {
    "YEAR": "year({})",
    "QUARTER": "quarter({})",
    "MONTH": "month({})",
    "DAY": "day({})",
    "WEEK": "week({})",
    "DOY": "dayofyear({})",
    "DAYOFWEEK": "dayofweek({}) + 1",
}
_CLOCK_FIELDS: dict[str, str] = {"HOUR": "hour({})", "MINUTE": "minute({})"}
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


def _date(t: Translator, node: exp.Expr) -> Value:
    value = t.value(node)
    require(value.type == DATE, f"of {value.type.simpleString()}")
    return value


def _moment(t: Translator, node: exp.Expr) -> Value:
    value = t.value(node)
    require(is_moment(value.type), f"of {value.type.simpleString()}")
    return value


def _day(t: Translator, node: exp.Expr) -> Value:
    """A date, or the date of a timestamp, as Spark casts it."""
    value = t.value(node)
    require(value.type == DATE or is_moment(value.type), f"of {value.type.simpleString()}")
    return value if value.type == DATE else Value(f"CAST({value.sql} AS DATE)", DATE)


def _integer(form: str, value: Value) -> Value:
    return Value(f"CAST({form.format(value.sql)} AS INTEGER)", INTEGER)


@proven(exp.TsOrDsToDate, "this", "safe")
def write_to_date(t: Translator, node: exp.TsOrDsToDate) -> Value:
    """`to_date(x)` without a format, of a date or timestamp; sqlglot puts it around other functions' arguments, too."""
    return _day(t, node.this)


def write_part(t: Translator, node: exp.Expr) -> Value:
    """`year(x)` and its like, of a date or timestamp."""
    if isinstance(node, exp.Anonymous):
        [part] = node.expressions
        return _integer(_PARTS[node.name.lower()], _day(t, part))
    return _integer(_PARTS[type(node)], _day(t, node.this))


def write_clock(t: Translator, node: exp.Expr) -> Value:
    """`hour(x)`, `minute(x)`, `second(x)` of a timestamp."""
    return _integer(_CLOCK[type(node)], _moment(t, node.this))


for _kind in _PARTS:
    proven(_kind, "this", "expressions")(write_part)
for _kind in _CLOCK:
    proven(_kind, "this")(write_clock)


@proven(exp.Extract, "this", "expression")
def write_extract(t: Translator, node: exp.Extract) -> Value:
    """`extract(field FROM x)`; seconds have a fraction there, and are left off."""
    field = node.name.upper()
    if field in _CLOCK_FIELDS:
        return _integer(_CLOCK_FIELDS[field], _moment(t, node.expression))
    require(field in _FIELDS, f"of {field.lower()}")
    return _integer(_FIELDS[field], _day(t, node.expression))


@proven(exp.UnixMicros, "this")
def write_microseconds(t: Translator, node: exp.UnixMicros) -> Value:
    """`unix_micros(x)`: of a timestamp with zone."""
    value = t.value(node.this)
    require(value.type == TIMESTAMP, f"of {value.type.simpleString()}")
    return Value(f"epoch_us({value.sql})", LONG)


@proven(exp.TsOrDsAdd, "this", "expression", "unit")
def write_date_add(t: Translator, node: exp.TsOrDsAdd) -> Value:
    """`date_add(x, n)` and `date_sub(x, n)`."""
    return _add_days(_day(t, node.this), t.value(node.expression), "+")


def _add_days(day: Value, count: Value, symbol: str) -> Value:
    require(count.type in (SHORT, INTEGER), f"days as {count.type.simpleString()}")
    return Value(f"CAST({day.sql} {symbol} {retype(count, INTEGER).sql} AS DATE)", DATE)


@proven(exp.DateDiff, "this", "expression")
def write_date_difference(t: Translator, node: exp.DateDiff) -> Value:
    """`datediff(end, start)` in days."""
    return _integer("({})", Value(f"{_day(t, node.this).sql} - {_day(t, node.expression).sql}", LONG))


@proven(exp.AddMonths, "this", "expression")
def write_add_months(t: Translator, node: exp.AddMonths) -> Value:
    """`add_months(x, n)`: the last day of a shorter month."""
    count = t.value(node.expression)
    require(count.type in (SHORT, INTEGER), f"months as {count.type.simpleString()}")
    day = _day(t, node.this)
    return Value(f"CAST({day.sql} + to_months({retype(count, INTEGER).sql}) AS DATE)", DATE)


@proven(exp.LastDay, "this")
def write_last_day(t: Translator, node: exp.LastDay) -> Value:
    """`last_day(x)`: of the month."""
    return Value(f"last_day({_day(t, node.this).sql})", DATE)


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
    return Value(f"CAST(date_trunc('{_DAY_UNITS[unit]}', {_day(t, node.this).sql}) AS DATE)", DATE)


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
