"""Sums of floating numbers: the order of addition decides their last digits, and two computations take two orders.

Refused with a wish for decimals: a comparison within a tolerance would not help, since a sum of values of both signs
may have no right digit at all.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from cdc.columns.types.spark_types import spark_type
from cdc.columns.types.text_meaning import Meaning
from cdc.core.table import Column, Kind, Table
from cdc.views.statement.dialect.registry import kind_of
from cdc.views.statement.entrance.admission import Refused, refuse
from cdc.views.statement.entrance.determined import RowIdentity
from cdc.views.statement.entrance.ties import is_total
from cdc.views.statement.lineage import Lineage
from cdc.views.statement.statement import Statement
from cdc.views.text_columns.meanings import find_addition_meaning, write_remedy

_SUMS: Final = (exp.Sum, exp.Avg, "mean", "try_sum", "try_avg")
_MOMENTS: Final = (
    *(exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, "std", exp.Kurtosis, exp.Skewness),
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrAvgx, exp.RegrAvgy, exp.RegrIntercept, exp.RegrR2),
    *(exp.RegrSlope, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy),
)
"""Spark adds doubles for these, whatever it is given."""
_DOUBLES: Final = (
    *(exp.Sqrt, exp.Cbrt, exp.Exp, exp.Ln, exp.Log, exp.Pow, exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan),
    *(exp.Atan2, exp.Sinh, exp.Cosh, exp.Tanh, exp.Asinh, exp.Acosh, exp.Atanh, exp.Cot, exp.Csc, exp.Sec, exp.Pi),
    *(exp.Degrees, exp.Radians, exp.Nanvl, exp.Rint, exp.Median, exp.Quantile, exp.PercentileCont),
    *(exp.PercentRank, exp.CumeDist, exp.MonthsBetween, "e", "expm1", "log1p", "hypot"),
)
_TEXTS: Final = (
    *(exp.JSONExtractScalar, exp.RegexpExtract, exp.RegexpReplace, exp.Substring, exp.SubstringIndex, exp.SplitPart),
    *(exp.Trim, exp.Concat, exp.ConcatWs, exp.Replace, exp.Upper, exp.Lower, exp.Translate, "btrim"),
)
"""Spark reads a text as a double where it adds it."""
_FLOATING: Final = re.compile(r"\b(double|float|string)\b")
_EXACT_TYPES: Final = frozenset(["DECIMAL", "INT", "BIGINT", "SMALLINT", "TINYINT", "BOOLEAN", "DATE"])
_SAME: Final = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Paren, exp.Abs, exp.Round, exp.Coalesce, exp.Greatest),
    *(exp.Least, exp.Max, exp.Min, exp.Sum, exp.Nullif, exp.Window, exp.Filter, exp.Distinct, exp.Alias, exp.Negative),
    *(exp.SafeAdd, exp.SafeSubtract, exp.SafeMultiply, exp.FirstValue, exp.LastValue, exp.Lag, exp.Lead, exp.Dot),
    *(exp.Bracket, exp.ArgMax, exp.ArgMin, "zeroifnull", "nullifzero", "positive", "pmod", "bround", "try_sum"),
)
"""Functions whose value is of the type of their arguments."""
_LAST_DIGITS: Final = "the order of addition decides the last digits"
_ADDED: Final = f"{_LAST_DIGITS}: add decimals, CAST(… AS DECIMAL(38, 9))"
_MEASURED: Final = f"{_LAST_DIGITS}: write it by sum() of decimals"


def find_floating_sums(statement: Statement, lineage: Lineage) -> Iterator[Refused]:
    """The aggregates whose last digits depend on the order of rows."""
    types, identity = _Types(statement, lineage), RowIdentity(statement, lineage)
    for scope in lineage.scopes:
        query = scope.expression
        for node in query.find_all(exp.Func) if isinstance(query, exp.Select) else ():
            if node.parent_select is query and not _is_in_order(identity, scope, node):
                if kind_of(node) in _MOMENTS:
                    yield refuse(node, "", _MEASURED)
                elif kind_of(node) in _SUMS and types.may_be_floating(scope, _argument(node)):
                    yield _refuse_added(node, types.find_numerics(scope, _argument(node)))


def _refuse_added(node: exp.Expr, numerics: Mapping[tuple[Table, Column], Meaning]) -> Refused:
    """Refuse a sum; by what its numerics are in the lake, if it has any that are no decimals there."""
    if not numerics:
        return refuse(node, "", _ADDED)
    causes = [f"{table.name}.{column.name} {meaning.what}" for (table, column), meaning in numerics.items()]
    remedies = [write_remedy(meaning, table, column.name) for (table, column), meaning in numerics.items()]
    return refuse(node, "", f"{', '.join(causes)}, added as doubles, and {_LAST_DIGITS}: {', '.join(remedies)}")


def _is_in_order(identity: RowIdentity, scope: Scope, node: exp.Expr) -> bool:
    window = node.find_ancestor(exp.Window, exp.Select)
    return isinstance(window, exp.Window) and bool(window.args.get("order")) and is_total(identity, scope, window)


def _argument(node: exp.Expr) -> exp.Expr:
    found = node.this if not isinstance(node, exp.Anonymous) else next(iter(node.expressions), exp.Null())
    assert isinstance(found, exp.Expr)
    return found


class _Types:
    """Whether values may be floating numbers, or texts, which Spark adds as such."""

    def __init__(self, statement: Statement, lineage: Lineage) -> None:
        self._statement = statement
        self._lineage = lineage

    def may_be_floating(self, scope: Scope, value: exp.Expr) -> bool:
        match value:
            case exp.Column():
                found = self._is_column(scope, value)
            case exp.Cast():
                found = value.to.this.name not in _EXACT_TYPES
            case exp.Dot():
                found = self._is_field(scope, value)
            case exp.Literal():
                found = value.is_string or "e" in value.name.lower()
            case exp.If() | exp.Case():
                found = any(self.may_be_floating(scope, each) for each in _branches(value))
            case exp.Div() | exp.SafeDivide():
                found = self._is_quotient_floating(scope, value)
            case _:
                found = self._is_function(scope, value)
        return found

    def _is_function(self, scope: Scope, value: exp.Expr) -> bool:
        kind = kind_of(value)
        if kind in _DOUBLES or kind in _TEXTS or kind is exp.Subquery:
            return True
        if kind in (exp.Avg, "mean", "try_avg"):
            return not self._has_decimal(scope, value)
        parts = (part for part in value.iter_expressions() if not isinstance(part, exp.Order | exp.WindowSpec))
        return kind in _SAME and any(self.may_be_floating(scope, part) for part in parts)

    def _is_quotient_floating(self, scope: Scope, value: exp.Expr) -> bool:
        sides = [value.this, value.expression]
        return any(self.may_be_floating(scope, side) for side in sides) or not self._has_decimal(scope, value)

    def _has_decimal(self, scope: Scope, value: exp.Expr) -> bool:
        literals = (not each.is_string and "." in each.name for each in value.find_all(exp.Literal))
        casts = (each.to.this.name == "DECIMAL" for each in value.find_all(exp.Cast))
        kinds = (base.kind for column in value.find_all(exp.Column) for base in self._bases(scope, column))
        return any(literals) or any(casts) or any(kind is Kind.DECIMAL for kind in kinds)

    def _is_column(self, scope: Scope, column: exp.Column) -> bool:
        source = _find_source(scope, column.table)
        if isinstance(source, Scope):
            return any(self.may_be_floating(inner, value) for inner, value in self._outputs(source, column.name))
        return any(_is_floating(base) for base in self._bases(scope, column))

    def _is_field(self, scope: Scope, value: exp.Dot) -> bool:
        """A field of a struct."""
        bases = [base for column in value.find_all(exp.Column) for base in self._bases(scope, column)]
        fields = [field for base in bases for field in base.fields if field.name.lower() == value.name.lower()]
        return any(_is_floating(field) for field in fields or bases)

    def _bases(self, scope: Scope, column: exp.Column) -> Iterator[Column]:
        """The columns of tables behind a column."""
        source = _find_source(scope, column.table)
        if isinstance(source, Scope):
            for inner, value in self._outputs(source, column.name):
                for each in value.find_all(exp.Column):
                    yield from self._bases(inner, each)
        elif found := self._find_base(source, column):
            yield found[1]

    def _find_base(self, source: object, column: exp.Column) -> tuple[Table, Column] | None:
        use = self._statement.uses.get(id(source))
        if use is None:
            return None
        table = self._statement.tables[use.table]
        return next(((table, each) for each in table.columns if each.name.lower() == column.name.lower()), None)

    def find_numerics(self, scope: Scope, value: exp.Expr) -> Mapping[tuple[Table, Column], Meaning]:
        """The numerics in a value that are no decimals in the lake; without those that it casts or compares."""
        found = dict[tuple[Table, Column], Meaning]()
        for column in value.walk(prune=lambda node: isinstance(node, exp.Cast | exp.Predicate)):
            source = _find_source(scope, column.table) if isinstance(column, exp.Column) else None
            if isinstance(source, Scope):
                for inner, output in self._outputs(source, column.name):
                    found |= self.find_numerics(inner, output)
            elif isinstance(column, exp.Column) and (base := self._find_base(source, column)):
                meaning = find_addition_meaning(base[1])
                found |= {base: meaning} if meaning else {}
        return found

    def _outputs(self, scope: Scope, name: str) -> Iterator[tuple[Scope, exp.Expr]]:
        """The expressions that give an output column of a query, one for each branch of a UNION."""
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            for branch, column in self._lineage.branches(query, name):
                yield from self._outputs(branch, column)
        elif isinstance(query, exp.Select):
            yield from ((scope, part.unalias()) for part in query.selects if part.alias_or_name == name)


def _branches(value: exp.Expr) -> Iterator[exp.Expr]:
    for branch in value.args.get("ifs") or [value]:
        yield branch.args["true"]
    for name in ("default", "false"):
        if other := value.args.get(name):
            yield other


def _is_floating(column: Column) -> bool:
    return bool(_FLOATING.search(spark_type(column).simpleString()))


def _find_source(scope: Scope, name: str) -> object:
    here: Scope | None = scope
    while here is not None:
        if name in here.sources:
            return here.sources[name]
        here = here.parent
    return None
