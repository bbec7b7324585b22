"""Sums of floating numbers: the order of addition decides their last digits, and two computations take two orders.

Refused with a wish for decimals: a comparison within a tolerance would not help, since a sum of values of both signs
may have no right digit at all.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from cdc.columns.types.spark_types import spark_type
from cdc.columns.types.text_meaning import Meaning
from cdc.core.table import Column, Kind, Table
from cdc.views.statement.analysis.keys import RowIdentity
from cdc.views.statement.analysis.ties import is_total
from cdc.views.statement.entrance.admission import Refused, refuse
from cdc.views.statement.entrance.kinds import kind_of, kinds
from cdc.views.statement.tree.nodes import Derived, OpaqueSource, Scan, Select, Source, Tree, list_values
from cdc.views.statement.tree.writing import walk_within
from cdc.views.text_columns.meanings import find_addition_meaning, write_remedy

_SUMS: Final = kinds("Sum Avg mean try_sum try_avg")
_MOMENTS: Final = kinds("""
    Corr CovarPop CovarSamp Kurtosis RegrAvgx RegrAvgy RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy Skewness
    Stddev StddevPop StddevSamp Variance VariancePop std
""")
"""Spark adds doubles for these, whatever it is given."""
_DOUBLES: Final = kinds("""
    Acos Acosh Asin Asinh Atan Atan2 Atanh Cbrt Cos Cosh Cot Csc CumeDist Degrees Exp Ln Log Median MonthsBetween
    Nanvl PercentRank PercentileCont Pi Pow Quantile Radians Rint Sec Sin Sinh Sqrt Tan Tanh e expm1 log1p hypot
""")
_TEXTS: Final = kinds("""
    Concat ConcatWs JSONExtractScalar Lower RegexpExtract RegexpReplace Replace SplitPart Substring SubstringIndex
    Translate Trim Upper btrim
""")
"""Spark reads a text as a double where it adds it."""
_FLOATING: Final = re.compile(r"\b(double|float|string)\b")
_EXACT_TYPES: Final = frozenset(["DECIMAL", "INT", "BIGINT", "SMALLINT", "TINYINT", "BOOLEAN", "DATE"])
_SAME: Final = kinds("""
    Abs Add Alias ArgMax ArgMin Bracket Coalesce Distinct Dot Filter FirstValue Greatest Lag LastValue Lead Least Max
    Min Mod Mul Neg Negative Nullif Paren Round SafeAdd SafeMultiply SafeSubtract Sub Sum Window zeroifnull nullifzero
    positive pmod bround try_sum
""")
"""Functions whose value is of the type of their arguments."""
_LAST_DIGITS: Final = "the order of addition decides the last digits"
_ADDED: Final = f"{_LAST_DIGITS}: add decimals, CAST(… AS DECIMAL(38, 9))"
_MEASURED: Final = f"{_LAST_DIGITS}: write it by sum() of decimals"


def find_floating_sums(tree: Tree) -> Iterator[Refused]:
    """The aggregates whose last digits depend on the order of rows."""
    types, identity = _Types(tree), RowIdentity(tree)
    for query in tree.selects:
        for node in query.node.find_all(exp.Func):
            if not _is_in_order(identity, query, node):
                if kind_of(node) in _MOMENTS:
                    yield refuse(node, "", _MEASURED)
                elif kind_of(node) in _SUMS and types.may_be_floating(_argument(node)):
                    yield _refuse_added(node, types.find_numerics(_argument(node)))


def _refuse_added(node: exp.Expr, numerics: Mapping[tuple[Table, Column], Meaning]) -> Refused:
    """Refuse a sum; by what its numerics are in the lake, if it has any that are no decimals there."""
    if not numerics:
        return refuse(node, "", _ADDED)
    causes = [f"{table.name}.{column.name} {meaning.what}" for (table, column), meaning in numerics.items()]
    remedies = [write_remedy(meaning, table, column.name) for (table, column), meaning in numerics.items()]
    return refuse(node, "", f"{', '.join(causes)}, added as doubles, and {_LAST_DIGITS}: {', '.join(remedies)}")


def _is_in_order(identity: RowIdentity, query: Select, node: exp.Expr) -> bool:
    window = node.find_ancestor(exp.Window, exp.Select)
    return isinstance(window, exp.Window) and bool(window.args.get("order")) and is_total(identity, query, window)


def _argument(node: exp.Expr) -> exp.Expr:
    found = node.this if not isinstance(node, exp.Anonymous) else next(iter(node.expressions), exp.Null())
    assert isinstance(found, exp.Expr)
    return found


class _Types:
    """Whether values may be floating numbers, or texts, which Spark adds as such."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def may_be_floating(self, value: exp.Expr) -> bool:
        match value:
            case exp.Column():
                found = self._is_column(value)
            case exp.Cast():
                found = value.to.this.name not in _EXACT_TYPES
            case exp.Dot():
                found = self._is_field(value)
            case exp.Literal():
                found = value.is_string or "e" in value.name.lower()
            case exp.If() | exp.Case():
                found = any(self.may_be_floating(each) for each in _branches(value))
            case exp.Div() | exp.SafeDivide():
                found = self._is_quotient_floating(value)
            case _:
                found = self._is_function(value)
        return found

    def _is_function(self, value: exp.Expr) -> bool:
        kind = kind_of(value)
        if kind in _DOUBLES or kind in _TEXTS or kind is exp.Subquery:
            return True
        if kind in (exp.Avg, "mean", "try_avg"):
            return not self._has_decimal(value)
        parts = (part for part in value.iter_expressions() if not isinstance(part, exp.Order | exp.WindowSpec))
        return kind in _SAME and any(self.may_be_floating(part) for part in parts)

    def _is_quotient_floating(self, value: exp.Expr) -> bool:
        sides = [value.this, value.expression]
        return any(self.may_be_floating(side) for side in sides) or not self._has_decimal(value)

    def _has_decimal(self, value: exp.Expr) -> bool:
        parts = [*walk_within(value)]
        literals = (isinstance(each, exp.Literal) and not each.is_string and "." in each.name for each in parts)
        casts = (isinstance(each, exp.Cast) and each.to.this.name == "DECIMAL" for each in parts)
        kinds = (base.kind for column in _columns_within(value) for base in self._bases(column))
        return any(literals) or any(casts) or any(kind is Kind.DECIMAL for kind in kinds)

    def _is_column(self, column: exp.Column) -> bool:
        source = self._tree.sources.get(column.table)
        if isinstance(source, Derived):
            return any(self.may_be_floating(value) for value in list_values(source.query, column.name))
        return any(_is_floating(base) for base in self._bases(column))

    def _is_field(self, value: exp.Dot) -> bool:
        """A field of a struct."""
        bases = [base for column in _columns_within(value) for base in self._bases(column)]
        fields = [field for base in bases for field in base.fields if field.name.lower() == value.name.lower()]
        return any(_is_floating(field) for field in fields or bases)

    def _bases(self, column: exp.Column) -> Iterator[Column]:
        """The columns of tables behind a column."""
        source = self._tree.sources.get(column.table)
        if isinstance(source, Derived):
            for value in list_values(source.query, column.name):
                for each in _columns_within(value):
                    yield from self._bases(each)
        elif found := _find_base(source, column):
            yield found[1]

    def find_numerics(self, value: exp.Expr) -> Mapping[tuple[Table, Column], Meaning]:
        """The numerics in a value that are no decimals in the lake; without those that it casts or compares."""
        found = dict[tuple[Table, Column], Meaning]()
        for column in value.walk(prune=lambda node: isinstance(node, exp.Cast | exp.Predicate)):
            source = self._tree.sources.get(column.table) if isinstance(column, exp.Column) else None
            if isinstance(source, Derived):
                for output in list_values(source.query, column.name):
                    found |= self.find_numerics(output)
            elif isinstance(column, exp.Column) and (base := _find_base(source, column)):
                meaning = find_addition_meaning(base[1])
                found |= {base: meaning} if meaning else {}
        return found


def _find_base(source: Source | None, column: exp.Column) -> tuple[Table, Column] | None:
    source = source.of if isinstance(source, OpaqueSource) else source
    if not isinstance(source, Scan):
        return None
    named = (each for each in source.table.columns if each.name.lower() == column.name.lower())
    return next(((source.table, each) for each in named), None)


def _columns_within(value: exp.Expr) -> Iterator[exp.Column]:
    return (part for part in walk_within(value) if isinstance(part, exp.Column))


def _branches(value: exp.Expr) -> Iterator[exp.Expr]:
    for branch in value.args.get("ifs") or [value]:
        yield branch.args["true"]
    for name in ("default", "false"):
        if other := value.args.get(name):
            yield other


def _is_floating(column: Column) -> bool:
    return bool(_FLOATING.search(spark_type(column).simpleString()))
