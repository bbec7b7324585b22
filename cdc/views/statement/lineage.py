"""Where the values of a statement come from: the columns of tables behind an expression."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import combinations, product

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from cdc.views.statement.derived import DerivedColumns
from cdc.views.statement.entrance.functions import is_aggregate
from cdc.views.statement.join_order import joins_from_left
from cdc.views.statement.statement import Statement
from cdc.views.statement.strict import is_strict

BaseColumn = tuple[str, str]
"""Alias of a use, and a column of its table."""
Sources = frozenset[BaseColumn]
"""The columns that a value can come from: several for COALESCE and UNION ALL, none where it is computed."""
NOWHERE: Sources = frozenset()


class Lineage:
    """The scopes of a statement, and the columns of tables that their values are.

    `equated`: pairs of columns that are equal wherever rows of both meet. Only of such columns COALESCE is a source.
    """

    def __init__(self, statement: Statement, equated: Collection[frozenset[BaseColumn]] = ()) -> None:
        self._statement = statement
        self._equated = equated
        self.scopes: Sequence[Scope] = list(traverse_scope(statement.tree))
        self.derived = DerivedColumns(statement, {})
        self._of_query = {id(scope.expression): scope for scope in self.scopes}

    @property
    def root(self) -> Scope:
        return self.scopes[-1]

    def scope_of(self, query: exp.Expr) -> Scope:
        """The scope of a query, which may stand in parentheses."""
        return self._of_query[id(query.unnest())]

    def output(self, scope: Scope, name: str) -> Sources:
        """The sources of an output column, if the rows of the scope can be restricted by it; else none.

        They can where all rows that share a result row, or a window, have the same value of the column.
        """
        query = scope.expression
        if query.args.get("limit") or query.args.get("offset"):
            return NOWHERE
        if isinstance(query, exp.SetOperation):
            found = [self.output(branch, column) for branch, column in self.branches(query, name)]
            return frozenset[BaseColumn]().union(*found) if found and all(found) else NOWHERE
        if not isinstance(query, exp.Select):
            return NOWHERE
        selected = _selected(query, name)
        if selected is None or not _may_restrict(query, selected):
            return NOWHERE
        return self.resolve(scope, selected)

    def branches(self, query: exp.SetOperation, name: str) -> Iterator[tuple[Scope, str]]:
        """The branches of a UNION, EXCEPT or INTERSECT, each with its name for an output column."""
        names = [value.alias_or_name for value in query.left.selects]
        for branch in (query.left, query.right) if name in names else ():
            yield self.scope_of(branch), branch.selects[names.index(name)].alias_or_name

    def resolve(self, scope: Scope, value: exp.Expr, optional: Collection[str] | None = None) -> Sources:
        """The sources of an expression in a scope: where rows of all are absent, it is null.

        `optional`: the names in FROM that may have no row where it is evaluated; by default, after all joins.
        """
        if isinstance(value, exp.Paren):
            return self.resolve(scope, value.this, optional)
        if isinstance(value, exp.Coalesce):
            parts = [self.resolve(scope, part, optional) for part in (value.this, *value.expressions)]
            return frozenset[BaseColumn]().union(*parts) if all(parts) and self._are_equated(parts) else NOWHERE
        if isinstance(value, exp.Column):
            return self._resolve_column(scope, value)
        if not is_strict(value) and any(
            self._may_lack_row(scope, each, optional) for each in value.find_all(exp.Column)
        ):
            # without a row it may be another value than null
            return NOWHERE
        found = self.derived.find(value, partial(self._resolve_column, scope))
        return frozenset([found]) if found else NOWHERE

    def _may_lack_row(self, scope: Scope, column: exp.Column, optional: Collection[str] | None) -> bool:
        here: Scope | None = scope
        while here is not None and column.table not in here.sources:
            here, optional = here.parent, None
        if here is None:
            return True
        names = optional_sources(here) if optional is None else optional
        return column.table in names or self._lacks_row(here, column)

    def _are_equated(self, parts: Sequence[Sources]) -> bool:
        pairs = (pair for one, other in combinations(parts, 2) for pair in product(one, other))
        return all(frozenset(pair) in self._equated for pair in pairs)

    def _resolve_column(self, scope: Scope, column: exp.Column) -> Sources:
        here: Scope | None = scope
        while here is not None:
            if column.table in here.sources:
                source = here.sources[column.table]
                if not joins_from_left(here.expression):
                    return NOWHERE
                if isinstance(source, Scope):
                    return self.output(source, column.name)
                is_pivoted = isinstance(source, exp.Table) and source.args.get("pivots")
                use = None if is_pivoted else self._statement.uses.get(id(source))
                # LATERAL VIEW and its like make rows of their own
                return frozenset([(use.alias, self._statement.column(use.alias, column.name).name)]) if use else NOWHERE
            # a correlated subquery names columns of the query around it
            here = here.parent
        return NOWHERE

    def may_be_missing(self, scope: Scope, name: str) -> bool:
        """Whether an output column can be null since an outer join found no row: then no row leads to that result."""
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            found = [self.may_be_missing(branch, column) for branch, column in self.branches(query, name)]
            return any(found) or not found
        selected = _selected(query, name) if isinstance(query, exp.Select) else None
        return selected is None or self._may_be_missing(scope, selected)

    def _may_be_missing(self, scope: Scope, value: exp.Expr) -> bool:
        if isinstance(value, exp.Paren):
            return self._may_be_missing(scope, value.this)
        if isinstance(value, exp.Coalesce):
            parts = [value.this, *value.expressions]
            there = {part.table for part in parts if isinstance(part, exp.Column) and not self._lacks_row(scope, part)}
            return not one_of_always_there(scope) <= there and all(self._may_be_missing(scope, part) for part in parts)
        columns = [value] if isinstance(value, exp.Column) else [*value.find_all(exp.Column)]
        optional = optional_sources(scope)
        return not columns or any(each.table in optional or self._lacks_row(scope, each) for each in columns)

    def _lacks_row(self, scope: Scope, column: exp.Column) -> bool:
        """Whether the column may be missing in the subquery that it comes from."""
        source = scope.sources.get(column.table)
        return isinstance(source, Scope) and self.may_be_missing(source, column.name)


def name_output(part: exp.Expr) -> str | None:
    """The name of an output, in lower case; None where the user gave it none, and Spark calls it as it likes."""
    name = part.args.get("alias")
    # qualified, every output has an alias; those of the user have a place in the text
    is_named = isinstance(part.unalias(), exp.Column) or (isinstance(name, exp.Identifier) and "line" in name.meta)
    return part.alias_or_name.lower() if is_named else None


def name_outputs(scope: Scope) -> list[str]:
    """The names of a query's columns."""
    query = scope.expression
    assert isinstance(query, exp.Query)
    return query.named_selects


def optional_sources(scope: Scope, before_join: exp.Expr | None = None) -> set[str]:
    """The names in FROM whose rows an outer join fills with nulls where there are none; `before_join`: so far."""
    optional, before = set[str](), set[str]()
    query = scope.expression
    if not isinstance(query, exp.Select):
        return optional
    first = query.args.get("from_")
    before |= {first.this.alias_or_name} if first else set()
    for join in query.args.get("joins") or []:
        if join is before_join:
            break
        name = join.this.alias_or_name
        if join.side in ("LEFT", "FULL") and join.kind not in ("SEMI", "ANTI"):
            optional.add(name)
        if join.side in ("RIGHT", "FULL"):
            optional |= before
        before.add(name)
    return optional


def one_of_always_there(scope: Scope) -> set[str]:
    """Names in FROM of which every joined row has at least one: both sides of a FULL JOIN, for instance."""
    query = scope.expression
    first = query.args.get("from_")
    names = {first.this.alias_or_name} if first else set()
    for join in query.args.get("joins") or []:
        if join.side == "FULL":
            names.add(join.this.alias_or_name)
        elif join.side == "RIGHT":
            names = {join.this.alias_or_name}
    return names


def _selected(query: exp.Select, name: str) -> exp.Expr | None:
    return next((value.unalias() for value in query.selects if value.alias_or_name == name), None)


def _may_restrict(query: exp.Select, selected: exp.Expr) -> bool:
    """May rows be left out by this output's value without a change of other rows?"""
    group = query.args.get("group")
    is_aggregated = group or any(
        node.find_ancestor(exp.Window, exp.Select) is query
        for node in query.find_all(exp.Func, exp.Any)
        if is_aggregate(node)
    )
    if is_aggregated and not (group and _is_grouped_by(group, selected)):
        return False
    # in QUALIFY, too
    windows = [window for window in query.find_all(exp.Window) if window.parent_select is query]
    return all(selected in window.args.get("partition_by", []) for window in windows)


def _is_grouped_by(group: exp.Group, selected: exp.Expr) -> bool:
    # ROLLUP and its like have rows of several groups, where the column is null
    is_plain = all(not value for name, value in group.args.items() if name != "expressions")
    return is_plain and selected in group.expressions
