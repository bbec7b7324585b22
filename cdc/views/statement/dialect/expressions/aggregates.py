"""Aggregates whose result does not depend on the order of the rows.

Not on the list: sums and averages of doubles, since floating sums depend on the order of addition; the least and the
largest double, since zeros of both signs are equal; `min_by` and its like, since several rows may tie.
"""

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.expressions.arithmetic import scaled, unscaled
from cdc.views.statement.dialect.registry import AGGREGATES, proven, proven_aggregate
from cdc.views.statement.dialect.translator import Translator, check_arguments
from cdc.views.statement.dialect.types import (
    BOOLEAN,
    DOUBLE,
    LONG,
    NOTHING,
    UnorderedArrayType,
    decimal,
    duckdb_type,
    is_identified,
    is_integral,
    is_orderable,
)
from cdc.views.statement.dialect.values import Value, require, require_ordered
from cdc.views.statement.entrance.kinds import kind_of

_SUM_DIGITS = 10
"""Digits that Spark adds to a sum of decimals."""
_AVERAGE_DIGITS = 4
"""Digits that Spark adds to an average, before and behind the point."""


def _argument(t: Translator, node: exp.Expr) -> tuple[str, Value]:
    """DISTINCT or nothing, and the value."""
    inner = node.this
    if not isinstance(inner, exp.Distinct):
        return "", t.value(inner)
    check_arguments(inner, frozenset(["expressions"]))
    require(len(inner.expressions) == 1, "of several values")
    value = t.value(inner.expressions[0])
    require(is_orderable(value.type), f"distinct {value.type.simpleString()}")
    return "DISTINCT ", value


@proven(exp.Filter, "this", "expression")
def write_filter(t: Translator, node: exp.Filter) -> Value:
    """An aggregate of the rows for which a condition holds."""
    require(kind_of(node.this) in AGGREGATES, "FILTER of something else")
    return t.aggregate(node.this, filter_of(t, node))


def filter_of(t: Translator, node: exp.Filter) -> str:
    return f" FILTER (WHERE {t.condition(node.expression.this)})"


@proven_aggregate(exp.Count, "this", "expressions", "big_int")
def write_count(t: Translator, node: exp.Count, after: str) -> Value:
    """`count`: of rows, or of those without a null."""
    if isinstance(node.this, exp.Star):
        return Value(f"count(*){after}", LONG)
    is_distinct = isinstance(node.this, exp.Distinct)
    parts = node.this.expressions if is_distinct else [node.this, *node.expressions]
    values = [t.value(part) for part in parts]
    require_ordered(*(value.type for value in values) if is_distinct else ())
    require(not is_distinct or all(is_orderable(value.type) for value in values), "distinct values of these types")
    are_there = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
    counted = values[0].sql if len(values) == 1 else f"({', '.join(value.sql for value in values)})"
    counted = (
        f"DISTINCT CASE WHEN {are_there} THEN {counted} END" if is_distinct else f"CASE WHEN {are_there} THEN 1 END"
    )
    return Value(f"count({counted}){after}", LONG)


@proven_aggregate(exp.CountIf, "this")
def write_count_if(t: Translator, node: exp.CountIf, after: str) -> Value:
    """`count_if(condition)`."""
    return Value(f"count(CASE WHEN {t.condition(node.this)} THEN 1 END){after}", LONG)


def _only(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Anonymous):
        inner = node.this
        assert isinstance(inner, exp.Expr)
        return inner
    require(len(node.expressions) == 1, "with several arguments")
    [part] = node.expressions
    assert isinstance(part, exp.Expr)
    return part


@proven_aggregate(exp.Sum, "this")
def write_sum(t: Translator, node: exp.Sum, after: str) -> Value:
    """`sum`: of integers a bigint, of decimals one with ten digits more; DuckDB's own are wider."""
    distinct, value = _argument(t, node)
    to = _sum_type(value.type)
    return Value(f"CAST(sum({distinct}{value.sql}){after} AS {duckdb_type(to)})", to)


def _sum_type(of: T.DataType) -> T.DataType:
    if isinstance(of, T.DecimalType):
        to = decimal(of.precision + _SUM_DIGITS, of.scale)
        require(to, "its sum may have more than 38 digits")
        assert to is not None
        return to
    require(is_integral(of), f"of {of.simpleString()}: the order of addition matters" if of == DOUBLE else "of it")
    return LONG


@proven_aggregate(exp.Avg, "this")
@proven_aggregate("mean", "this", "expressions")
def write_average(t: Translator, node: exp.Func, after: str) -> Value:
    """`avg`: of integers a double, of decimals one with four digits more, rounded half away from zero."""
    distinct, value = ("", t.value(_only(node))) if isinstance(node, exp.Anonymous) else _argument(t, node)
    count = f"count({distinct}{value.sql}){after}"
    if isinstance(value.type, T.DecimalType):
        total_type = _sum_type(value.type)
        assert isinstance(total_type, T.DecimalType)
        to = decimal(value.type.precision + _AVERAGE_DIGITS, value.type.scale + _AVERAGE_DIGITS)
        require(to and total_type.precision + _AVERAGE_DIGITS + 2 <= 38, "its digits are too many")
        assert to is not None
        total = Value(f"CAST(sum({distinct}{value.sql}){after} AS {duckdb_type(total_type)})", total_type)
        digits = f"({unscaled(total, total_type)} * CAST('{10**_AVERAGE_DIGITS}' AS HUGEINT))"
        return scaled(f"spark_average_of_digits({digits}, CAST({count} AS HUGEINT))", to)
    require(is_integral(value.type), f"of {value.type.simpleString()}")
    wide = f"CAST({value.sql} AS HUGEINT)"
    return Value(f"spark_average(sum({distinct}{wide}){after}, {count}, sum(abs({wide})){after})", DOUBLE)


@proven_aggregate(exp.Min, "this")
@proven_aggregate(exp.Max, "this")
def write_extreme(t: Translator, node: exp.Min | exp.Max, after: str) -> Value:
    """`min` and `max`."""
    _, value = _argument(t, node)
    require(is_identified(value.type), f"of {value.type.simpleString()}")
    return Value(f"{'min' if isinstance(node, exp.Min) else 'max'}({value.sql}){after}", value.type)


@proven_aggregate(exp.LogicalAnd, "this")
@proven_aggregate(exp.LogicalOr, "this")
@proven_aggregate(exp.Any, "this")
@proven_aggregate("every", "this", "expressions")
@proven_aggregate("some", "this", "expressions")
def write_logical(t: Translator, node: exp.Func, after: str) -> Value:
    """`bool_and`, `every`; `bool_or`, `some`, `any`."""
    is_and = isinstance(node, exp.LogicalAnd) or (isinstance(node, exp.Anonymous) and node.name.lower() == "every")
    return Value(f"{'bool_and' if is_and else 'bool_or'}({t.condition(_only(node))}){after}", BOOLEAN)


@proven(exp.ArrayAgg, "this", "nulls_excluded")
@proven(exp.ArrayUniqueAgg, "this")
def write_list(t: Translator, node: exp.ArrayAgg | exp.ArrayUniqueAgg) -> Value:
    """`collect_list` and `collect_set`: without nulls, and empty without a row. Its order is that of no engine."""
    distinct, value = _argument(t, node)
    require_ordered(value.type)
    require(value.type != NOTHING, "of no type")
    if isinstance(node, exp.ArrayUniqueAgg):
        distinct = "DISTINCT "
    require(not distinct or is_identified(value.type), f"distinct {value.type.simpleString()}")
    kept = f"list({distinct}{value.sql}) FILTER (WHERE {value.sql} IS NOT NULL)"
    of = UnorderedArrayType(value.type)
    return Value(f"coalesce({kept}, CAST([] AS {duckdb_type(of)}))", of)
