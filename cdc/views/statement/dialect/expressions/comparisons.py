"""Comparisons and conditions."""

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.expressions.literals import text_of
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator, check_arguments
from cdc.views.statement.dialect.types import BOOLEAN, NOTHING, TEXT, is_decimal, is_orderable
from cdc.views.statement.dialect.values import Value, bind, bound, require, retype, text_literal, unify

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def operands(t: Translator, left: exp.Expr, right: exp.Expr) -> tuple[Value, Value]:
    """The operands of an operator. Beside a decimal, an integer literal is a decimal of its own digits."""
    one, other = t.value(left), t.value(right)
    return beside(one, other), beside(other, one)


def beside(value: Value, other: Value) -> Value:
    """A value beside another one in an operator."""
    if value.digits and is_decimal(other.type):
        require(value.digits > 0, "a bigint literal beside a decimal")
        return retype(value, T.DecimalType(value.digits, 0))
    return value


def compare(left: Value, operator: str, right: Value) -> Value:
    """A comparison in the type to which Spark brings both."""
    one, other = alike(left, right)
    return Value(f"({one.sql} {operator} {other.sql})", BOOLEAN)


def alike(left: Value, right: Value) -> list[Value]:
    """Two values in one type, in which they can be compared."""
    values = unify(left, right)
    require(is_orderable(values[0].type), f"a comparison of {values[0].type.simpleString()}")
    return values


def write_comparison(t: Translator, node: exp.Binary) -> Value:
    """A comparison: NaN equals itself and is the largest, zeros of both signs are equal, texts compare by bytes."""
    left, right = operands(t, node.this, node.expression)
    return compare(left, _OPERATORS[type(node)], right)


for _kind in _OPERATORS:
    proven(_kind, "this", "expression")(write_comparison)


@proven(exp.Between, "this", "low", "high")
def write_between(t: Translator, node: exp.Between) -> Value:
    """`x >= low AND x <= high`, as Spark reads it: each in a type of its own."""
    value, low, high = (t.value(part) for part in (node.this, node.args["low"], node.args["high"]))
    x = bound("x", value)
    (one, least), (other, most) = (alike(beside(x, end), beside(end, value)) for end in (low, high))
    if one == other == x:
        return Value(f"({value.sql} BETWEEN {least.sql} AND {most.sql})", BOOLEAN)
    found = f"{one.sql} >= v.low AND {other.sql} <= v.high"
    return Value(bind({"x": value, "low": least, "high": most}, found), BOOLEAN)


def write_in(t: Translator, node: exp.In) -> Value:
    """`x IN (...)`: all in one type."""
    one, *others = unify(*(t.value(part) for part in (node.this, *node.expressions)))
    require(is_orderable(one.type), f"a comparison of {one.type.simpleString()}")
    return Value(f"({one.sql} IN ({', '.join(other.sql for other in others)}))", BOOLEAN)


@proven(exp.And, "this", "expression")
@proven(exp.Or, "this", "expression")
def write_connection(t: Translator, node: exp.Connector) -> Value:
    """AND and OR, with null as the unknown."""
    word = "AND" if isinstance(node, exp.And) else "OR"
    return Value(f"({t.condition(node.this)} {word} {t.condition(node.expression)})", BOOLEAN)


@proven(exp.Not, "this")
def write_not(t: Translator, node: exp.Not) -> Value:
    """NOT; also NOT IN, NOT LIKE, IS NOT NULL."""
    return Value(f"(NOT {t.condition(node.this)})", BOOLEAN)


@proven(exp.Is, "this", "expression")
def write_is(t: Translator, node: exp.Is) -> Value:
    """IS NULL, IS TRUE, IS FALSE."""
    if isinstance(node.expression, exp.Null):
        return is_null(t.value(node.this))
    require(isinstance(node.expression, exp.Boolean), "IS with something else")
    return Value(f"({t.condition(node.this)} IS NOT DISTINCT FROM {t.condition(node.expression)})", BOOLEAN)


def is_null(value: Value) -> Value:
    require(value.type != NOTHING, "of no type")
    return Value(f"({value.sql} IS NULL)", BOOLEAN)


@proven("isnull", "this", "expressions")
@proven("isnotnull", "this", "expressions")
def write_is_null(t: Translator, node: exp.Anonymous) -> Value:
    """`isnull(x)` and `isnotnull(x)`."""
    [part] = node.expressions
    found = is_null(t.value(part))
    return found if node.name.lower() == "isnull" else Value(f"(NOT {found.sql})", BOOLEAN)


@proven(exp.Like, "this", "expression", "negate")
def write_like(t: Translator, node: exp.Like) -> Value:
    """LIKE a literal. DuckDB has no escape unless one is named, Spark's is the backslash."""
    return _write_like(t, node, "\\")


@proven(exp.Escape, "this", "expression")
def write_like_with_escape(t: Translator, node: exp.Escape) -> Value:
    """LIKE a literal with an escape of the user's."""
    require(isinstance(node.this, exp.Like), "of another operator than LIKE")
    escape = text_of(node.expression)
    require(len(escape) == 1 and escape not in "%_", "an escape of another length, or a wildcard")
    check_arguments(node.this, frozenset(["this", "expression", "negate"]))
    return _write_like(t, node.this, escape)


def _write_like(t: Translator, node: exp.Expr, escape: str) -> Value:
    value, pattern = t.value(node.this), text_of(node.args["expression"])
    require(value.type == TEXT, f"of {value.type.simpleString()}")
    position = pattern.find(escape)
    while position >= 0:
        # Spark has an error for an escape before anything else
        require(pattern[position + 1 : position + 2] in ("%", "_", escape), "an escape before no wildcard")
        position = pattern.find(escape, position + 2)
    word = "NOT LIKE" if node.args.get("negate") else "LIKE"
    return Value(f"({value.sql} {word} {text_literal(pattern)} ESCAPE {text_literal(escape)})", BOOLEAN)
