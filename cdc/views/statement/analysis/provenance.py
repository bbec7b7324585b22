"""Where the values of a statement come from: the columns of tables behind an expression."""

from collections.abc import Collection, Sequence
from itertools import combinations, product

from sqlglot import exp

from cdc.views.statement.analysis.computed_columns import ComputedColumns, ComputeIn, compute_nothing
from cdc.views.statement.analysis.nullability import Nullability, is_strict
from cdc.views.statement.entrance.functions import is_aggregate
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import Derived, Query, Scan, Select, SetOperation

BaseColumn = tuple[str, str]
"""Alias of a use, and a column of its table."""
Sources = frozenset[BaseColumn]
"""The columns that a value can come from: several for COALESCE and UNION ALL, none where it is computed."""
NOWHERE: Sources = frozenset()


class Provenance:
    """The columns of tables that the values of a statement are.

    `equated`: pairs of columns that are equal wherever rows of both meet. Only of such columns COALESCE is a source.
    `compute`: writes an expression over one table's columns for the engine that finds rows by it.
    """

    def __init__(
        self,
        statement: Statement,
        equated: Collection[frozenset[BaseColumn]] = (),
        compute: ComputeIn = compute_nothing,
    ) -> None:
        self.tree = statement.tree
        self.nullability = Nullability(statement.tree)
        self.computed = ComputedColumns(statement, compute)
        self._statement = statement
        self._equated = equated

    def output(self, query: Query, name: str) -> Sources:
        """The sources of an output column, if the rows of the query can be restricted by it; else none.

        They can where all rows that share a result row, or a window, have the same value of the column.
        """
        if isinstance(query, SetOperation):
            # a branch that gives it from nowhere could add rows that no key leads to
            found = [self.output(branch, column) for branch, column in query.branches(name)]
            return frozenset[BaseColumn]().union(*found) if found and all(found) else NOWHERE
        # with other rows left out, other rows would be among the first ones
        if not isinstance(query, Select) or query.clause("limit") or query.clause("offset"):
            return NOWHERE
        selected = next((output.value for output in query.outputs if output.name == name), None)
        if selected is None or not _may_restrict(query, selected):
            return NOWHERE
        return self.resolve(query, selected)

    def resolve(self, query: Select, value: exp.Expr, optional: Collection[str] | None = None) -> Sources:
        """The sources of an expression in a query: where rows of all are absent, it is null.

        `optional`: the query's sources that may have no row where it is evaluated; by default, after all joins.
        """
        if isinstance(value, exp.Paren):
            return self.resolve(query, value.this, optional)
        if isinstance(value, exp.Coalesce):
            # its value may be that of either, and only if they are equal a key leads to the rows of both
            parts = [self.resolve(query, part, optional) for part in (value.this, *value.expressions)]
            return frozenset[BaseColumn]().union(*parts) if all(parts) and self._are_equated(parts) else NOWHERE
        if isinstance(value, exp.Column):
            return self._resolve_column(value)
        if not is_strict(value) and any(
            self.nullability.may_lack_row(query, each, optional) for each in value.find_all(exp.Column)
        ):
            # without a row it may be another value than null
            return NOWHERE
        found = self.computed.find(value, self._resolve_column)
        return frozenset([found]) if found else NOWHERE

    def _are_equated(self, parts: Sequence[Sources]) -> bool:
        pairs = (pair for one, other in combinations(parts, 2) for pair in product(one, other))
        return all(frozenset(pair) in self._equated for pair in pairs)

    def _resolve_column(self, column: exp.Column) -> Sources:
        owner = self.tree.owners.get(column.table)
        if owner is None or not owner.is_chain:
            return NOWHERE
        match self.tree.sources[column.table]:
            case Derived(query=query):
                return self.output(query, column.name)
            case Scan(name=alias):
                return frozenset([(alias, self._statement.column(alias, column.name).name)])
        # LATERAL VIEW and its like make rows of their own
        return NOWHERE


def _may_restrict(query: Select, selected: exp.Expr) -> bool:
    """May rows be left out by this output's value without a change of other rows?"""
    group = query.clause("group")
    is_aggregated = group or any(
        node.find_ancestor(exp.Window, exp.Select) is query.node
        for node in query.node.find_all(exp.Func, exp.Any)
        if is_aggregate(node)
    )
    # an aggregate is of all rows of its group: with some left out it would be another one
    if is_aggregated and not (group and _is_grouped_by(group, selected)):
        return False
    # in QUALIFY, too
    windows = query.node.find_all(exp.Window)
    return all(selected in window.args.get("partition_by", []) for window in windows)


def _is_grouped_by(group: exp.Expr, selected: exp.Expr) -> bool:
    # ROLLUP and its like have rows of several groups, where the column is null
    is_plain = all(not value for name, value in group.args.items() if name != "expressions")
    return is_plain and selected in group.expressions
