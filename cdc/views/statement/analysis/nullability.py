"""What may be null since an outer join found no row for it."""

from collections.abc import Collection
from typing import Final

from sqlglot import exp

from cdc.views.statement.entrance.kinds import classes
from cdc.views.statement.tree.nodes import Derived, Join, Query, Select, SetOperation, Tree

_STRICT: Final = classes("""
    Abs Add Cast Ceil Column Concat DPipe DateDiff DateTrunc Day Div Extract Floor Hour IntDiv Left Length Lower MD5
    Minute Mod Month Mul Neg Pad Paren Replace Reverse Right Round Second Sign Sub Substring TimestampTrunc Trim TryCast
    TsOrDsAdd TsOrDsToDate UnixDate UnixMicros Upper Year
""")
"""By their very classes: concat_ws, which leaves nulls out, is a kind of concat for sqlglot."""
_STRICT_NAMES: Final = frozenset(["window_start", "later", "pmod", "btrim"])
_WITHOUT_VALUES: Final = tuple(classes("Boolean DataType DataTypeParam Identifier Interval Literal Var"))


def is_strict(value: exp.Expr) -> bool:
    """Whether an expression is null wherever any column in it is null. Where nobody knows, it is not."""
    if isinstance(value, _WITHOUT_VALUES):
        return True
    is_named = isinstance(value, exp.Anonymous) and value.name.lower() in _STRICT_NAMES
    return (is_named or type(value) in _STRICT) and all(is_strict(part) for part in value.iter_expressions())


class Nullability:
    """Answers for one statement."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def may_be_missing(self, query: Query, name: str) -> bool:
        """Whether an output column can be null since an outer join found no row: then no row leads to that result."""
        if isinstance(query, SetOperation):
            found = [self.may_be_missing(branch, column) for branch, column in query.branches(name)]
            # one branch is enough to make it null in a row
            return any(found) or not found
        if not isinstance(query, Select):
            return True
        selected = next((output.value for output in query.outputs if output.name == name), None)
        return selected is None or self._is_missing(query, selected)

    def _is_missing(self, query: Select, value: exp.Expr) -> bool:
        if isinstance(value, exp.Paren):
            return self._is_missing(query, value.this)
        if isinstance(value, exp.Coalesce):
            # of a FULL JOIN's sides one is always there: COALESCE of both columns is no null that a join made
            parts = [value.this, *value.expressions]
            there = {part.table for part in parts if isinstance(part, exp.Column) and not self._lacks_row(part)}
            return not _one_of_always_there(query) <= there and all(self._is_missing(query, part) for part in parts)
        columns = [*value.find_all(exp.Column)]
        optional = optional_sources(query)
        return not columns or any(each.table in optional or self._lacks_row(each) for each in columns)

    def may_lack_row(self, query: Select, column: exp.Column, optional: Collection[str] | None) -> bool:
        """Whether the row that a column is of may be missing where a query evaluates it.

        `optional`: the query's own sources that may have no row there; by default, those after all joins.
        """
        owner = self._tree.owners.get(column.table)
        if owner is None:
            return True
        # a source of a query around this one is seen after all joins there
        names = optional if optional is not None and owner is query else optional_sources(owner)
        return column.table in names or self._lacks_row(column)

    def _lacks_row(self, column: exp.Column) -> bool:
        """Whether the column may be missing in the subquery that it comes from."""
        source = self._tree.sources.get(column.table)
        return isinstance(source, Derived) and self.may_be_missing(source.query, column.name)


def optional_sources(query: Select, before_join: Join | None = None) -> set[str]:
    """The sources whose rows an outer join fills with nulls where there are none; `before_join`: so far."""
    optional, before = set[str](), {query.first.name} if query.first else set[str]()
    for join in query.joins:
        if join is before_join:
            break
        if join.side in ("LEFT", "FULL") and join.kind not in ("SEMI", "ANTI"):
            optional.add(join.source.name)
        if join.side in ("RIGHT", "FULL"):
            # also what was joined firmly before: the whole left side is absent
            optional |= before
        before.add(join.source.name)
    return optional


def _one_of_always_there(query: Select) -> set[str]:
    """Sources of which every joined row has at least one: both sides of a FULL JOIN, for instance."""
    names = {query.first.name} if query.first else set[str]()
    for join in query.joins:
        if join.side == "FULL":
            names.add(join.source.name)
        elif join.side == "RIGHT":
            names = {join.source.name}
    return names
