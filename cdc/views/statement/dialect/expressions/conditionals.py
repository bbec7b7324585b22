"""Choices between values."""

from sqlglot import exp

from cdc.views.statement.dialect.expressions.comparisons import alike, beside, compare
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import NOTHING, is_identified
from cdc.views.statement.dialect.values import Value, bind, bound, require, unify


@proven(exp.Coalesce, "this", "expressions")
def write_coalesce(t: Translator, node: exp.Coalesce) -> Value:
    """`coalesce`, `nvl`, `ifnull`."""
    parts = [node.this, *node.expressions]
    values = [t.value(part) for part in parts]
    names = {part.name for part in parts if isinstance(part, exp.Column)}
    # USING is written so by sqlglot, but gives the type of one side
    is_using = len(names) == 1 and all(isinstance(part, exp.Column) for part in parts)
    require(not is_using or len({value.type.simpleString() for value in values}) == 1, "USING columns of two types")
    values = unify(*values)
    return Value(f"coalesce({', '.join(value.sql for value in values)})", values[0].type)


@proven(exp.If, "this", "true", "false")
def write_if(t: Translator, node: exp.If) -> Value:
    """`if(condition, x, y)`."""
    return _choose([(t.condition(node.this), t.value(node.args["true"]))], _otherwise(t, node.args.get("false")))


@proven(exp.Nvl2, "this", "true", "false")
def write_nvl2(t: Translator, node: exp.Nvl2) -> Value:
    """`nvl2(x, if not null, if null)`."""
    is_there = f"({t.value(node.this).sql} IS NOT NULL)"
    return _choose([(is_there, t.value(node.args["true"]))], t.value(node.args["false"]))


@proven(exp.Case, "this", "ifs", "default")
def write_case(t: Translator, node: exp.Case) -> Value:
    """CASE, with a value to compare, or with conditions."""
    compared = t.value(node.this) if node.this else None
    branches = [(_condition(t, compared, branch), t.value(branch.args["true"])) for branch in node.args["ifs"]]
    return _choose(branches, _otherwise(t, node.args.get("default")))


def _condition(t: Translator, compared: Value | None, branch: exp.If) -> str:
    if compared is None:
        return t.condition(branch.this)
    value = t.value(branch.this)
    return compare(beside(compared, value), "=", beside(value, compared)).sql


def _otherwise(t: Translator, node: exp.Expr | None) -> Value:
    return t.value(node) if node is not None else Value("CAST(NULL AS INTEGER)", NOTHING)


def _choose(branches: list[tuple[str, Value]], otherwise: Value) -> Value:
    *values, last = unify(*(value for _, value in branches), otherwise)
    whens = " ".join(
        f"WHEN {condition} THEN {value.sql}" for (condition, _), value in zip(branches, values, strict=True)
    )
    return Value(f"(CASE {whens} ELSE {last.sql} END)", last.type)


@proven(exp.Nullif, "this", "expression")
def write_nullif(t: Translator, node: exp.Nullif) -> Value:
    """`nullif(x, y)`: of the type of x."""
    mine, other = t.value(node.this), t.value(node.expression)
    require(mine.type != NOTHING, "of no type")
    one, another = alike(beside(bound("x", mine), other), beside(other, mine))
    found = f"CASE WHEN {one.sql} = v.y THEN NULL ELSE v.x END"
    return Value(bind({"x": mine, "y": another}, found), mine.type)


@proven(exp.Greatest, "this", "expressions", "ignore_nulls")
@proven(exp.Least, "this", "expressions", "ignore_nulls")
def write_greatest(t: Translator, node: exp.Greatest | exp.Least) -> Value:
    """`greatest` and `least`: nulls are passed over. Of zeros of both signs, either may be the result."""
    values = unify(t.value(node.this), *(t.value(part) for part in node.expressions))
    require(is_identified(values[0].type), f"of {values[0].type.simpleString()}")
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    return Value(f"{name}({', '.join(value.sql for value in values)})", values[0].type)
