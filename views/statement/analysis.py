"""From a statement to the plan by which its view is kept up."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from cdc.columns.rows.join_fingerprints import comparison_type
from cdc.columns.values.arrow_types import arrow_type
from cdc.core.table import Table, TableName
from views.plan import Anchor, AnchorGroup, Edge, Route, TableUse, ViewPlan

BaseColumn = tuple[str, str]
"""Alias of a use, and a column of its table."""
Sources = frozenset[BaseColumn]
"""The columns that a value can come from: several for COALESCE and UNION ALL, none where it is computed."""
NOWHERE: Sources = frozenset()


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement: common table expressions are inlined, and every use of a table has an alias of its own."""

    tree: exp.Query
    tables: Mapping[TableName, Table]
    uses: Mapping[int, TableUse]
    """By the id of the node in the tree."""


def plan_view(statement: Statement, key: Sequence[str]) -> ViewPlan:
    """Plan how changes of the statement's tables reach a view with this key."""
    lineage = Lineage(statement)
    uses, edges = {use.alias: use for use in statement.uses.values()}, lineage.find_edges()
    groups = _group_anchors(lineage, key)
    # rows of a key are found only if equalities lead from it to every use
    complete = [group for group in groups if _reach(edges, group.aliases) == uses.keys()]
    routes = _find_routes(edges, complete)
    return ViewPlan(uses, lineage.columns(), edges, routes, _explain_whole(edges, groups, uses.keys() - routes.keys()))


def _explain_whole(edges: Sequence[Edge], groups: Sequence[AnchorGroup], aliases: Iterable[str]) -> dict[str, str]:
    if not groups:
        return dict.fromkeys(aliases, "no column of a table is a column of the view's key")
    reached = [_reach(edges, group.aliases) for group in groups]
    return {
        alias: "no equality leads from it to the view's key"
        if all(alias not in some for some in reached)
        else "the view's key does not lead to every table"
        for alias in aliases
    }


class Lineage:
    """Where the columns of a statement come from."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._scopes: list[Scope] = list(traverse_scope(statement.tree))
        self._of_query = {id(scope.expression): scope for scope in self._scopes}

    @property
    def root(self) -> Scope:
        return self._scopes[-1]

    def columns(self) -> dict[TableName, list[str]]:
        """Per table, the columns that the statement reads, in the table's order."""
        read: dict[TableName, set[str]] = {use.table: set() for use in self._statement.uses.values()}
        for scope in self._scopes:
            for column in scope.columns:
                source = scope.sources.get(column.table)
                if isinstance(source, exp.Table):
                    read[self._statement.uses[id(source)].table].add(column.name)
        tables = self._statement.tables
        return {name: [c for c in tables[name].column_names if c in names] for name, names in read.items()}

    def output(self, scope: Scope, name: str) -> Sources:
        """The sources of an output column, if the rows of the scope can be restricted by it; else none.

        They can where all rows that share a result row, or a window, have the same value of the column.
        """
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            return self._output_of_union(scope, query, name)
        if query.args.get("limit") or query.args.get("offset"):
            return NOWHERE
        selected = next((value.unalias() for value in query.selects if value.alias_or_name == name), None)
        if selected is None or not _may_restrict(query, selected):
            return NOWHERE
        return self.resolve(scope, selected)

    def _output_of_union(self, scope: Scope, query: exp.SetOperation, name: str) -> Sources:
        # an EXCEPT or INTERSECT is restricted by all its columns alike
        at = [value.alias_or_name for value in query.left.selects].index(name)
        branches = [self._of_query[id(branch.unnest())] for branch in (query.left, query.right)]
        found = [self.output(branch, branch.expression.selects[at].alias_or_name) for branch in branches]
        return found[0] | found[1] if all(found) else NOWHERE

    def resolve(self, scope: Scope, value: exp.Expression) -> Sources:
        """The sources of an expression in a scope."""
        if isinstance(value, exp.Paren):
            return self.resolve(scope, value.this)
        if isinstance(value, exp.Coalesce):
            parts = [self.resolve(scope, part) for part in (value.this, *value.expressions)]
            return frozenset().union(*parts) if all(parts) else NOWHERE
        return self._resolve_column(scope, value) if isinstance(value, exp.Column) else NOWHERE

    def _resolve_column(self, scope: Scope, column: exp.Column) -> Sources:
        here: Scope | None = scope
        while here is not None:
            if column.table in here.sources:
                source = here.sources[column.table]
                if isinstance(source, Scope):
                    return self.output(source, column.name)
                return frozenset([(self._statement.uses[id(source)].alias, column.name)])
            # a correlated subquery names columns of the query around it
            here = here.parent
        return NOWHERE

    def find_edges(self) -> list[Edge]:
        """The equalities between columns of two uses; those of one clause and pair of uses are one edge."""
        edges = list[Edge]()
        for scope in self._scopes:
            for clause in _clauses(scope.expression):
                edges += self._edges_of(scope, clause)
        return edges

    def _edges_of(self, scope: Scope, clause: exp.Expression) -> Iterator[Edge]:
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for left, right in self._equalities(scope, clause):
            # with several sources a row has its value from one of them: each is an edge of its own
            is_single = len(left) == len(right) == 1
            for (use, column), (other, other_column) in ((a, b) for a in sorted(left) for b in sorted(right)):
                if use == other or not self._is_comparable((use, column), (other, other_column)):
                    continue
                if not is_single:
                    yield Edge(use, (column,), other, (other_column,))
                elif use < other:
                    pairs[use, other].append((column, other_column))
                else:
                    pairs[other, use].append((other_column, column))
        for (use, other), columns in pairs.items():
            yield Edge(use, tuple(a for a, _ in columns), other, tuple(b for _, b in columns))

    def _equalities(self, scope: Scope, clause: exp.Expression) -> Iterator[tuple[Sources, Sources]]:
        for part in clause.flatten() if isinstance(clause, exp.And) else [clause]:
            part = part.unnest()
            if isinstance(part, exp.EQ):
                yield self.resolve(scope, part.this), self.resolve(scope, part.expression)
            elif isinstance(part, exp.In) and part.args.get("query"):
                inner = self._of_query[id(part.args["query"].unnest())]
                yield self.resolve(scope, part.this), self.output(inner, inner.expression.selects[0].alias_or_name)

    def _is_comparable(self, left: BaseColumn, right: BaseColumn) -> bool:
        kinds = [self._comparison_type(column) for column in (left, right)]
        return kinds[0] is not None and kinds[0] == kinds[1]

    def _comparison_type(self, column: BaseColumn) -> object:
        use = next(use for use in self._statement.uses.values() if use.alias == column[0])
        table = self._statement.tables[use.table]
        of_table = next(c for c in table.columns if c.name == column[1])
        return comparison_type(arrow_type(of_table))


def _may_restrict(query: exp.Select, selected: exp.Expression) -> bool:
    """May rows be left out by this output's value without a change of other rows?"""
    group = query.args.get("group")
    is_aggregated = group or any(
        node.find_ancestor(exp.Window, exp.Select) is query for node in query.find_all(exp.AggFunc)
    )
    if is_aggregated and not (group and selected in group.expressions):
        return False
    windows = [w for value in query.selects for w in value.find_all(exp.Window) if w.parent_select is query]
    return all(selected in window.args.get("partition_by", []) for window in windows)


def _clauses(query: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions that every row has to meet, or by which it is joined."""
    if not isinstance(query, exp.Select):
        return
    for join in query.args.get("joins") or []:
        if join.args.get("on"):
            yield join.args["on"]
    if query.args.get("where"):
        yield query.args["where"].this


def _group_anchors(lineage: Lineage, key: Sequence[str]) -> list[AnchorGroup]:
    """The groups of uses that give the key's columns, one for each set of uses that gives a column."""
    sources = {name: found for name in key if (found := lineage.output(lineage.root, name))}
    starts = dict.fromkeys(frozenset(use for use, _ in found) for found in sources.values())
    return [AnchorGroup(tuple(_anchor(sources, use) for use in sorted(group))) for group in starts]


def _anchor(sources: Mapping[str, Sources], use: str) -> Anchor:
    columns = {name: column for name, found in sources.items() for alias, column in sorted(found) if alias == use}
    return Anchor(use, tuple(columns.values()), tuple(columns))


def _find_routes(edges: Sequence[Edge], groups: Sequence[AnchorGroup]) -> dict[str, Route]:
    """Per use, the shortest route to an anchor of any group."""
    routes = {anchor.alias: Route(group, anchor) for group in reversed(groups) for anchor in group.anchors}
    waiting = deque(routes)
    while waiting:
        here = waiting.popleft()
        for edge in edges_to(edges, here):
            if edge.left not in routes:
                routes[edge.left] = replace(routes[here], edges=(edge, *routes[here].edges))
                waiting.append(edge.left)
    return routes


def edges_to(edges: Iterable[Edge], alias: str) -> Iterator[Edge]:
    for edge in edges:
        if edge.right == alias:
            yield edge
        elif edge.left == alias:
            yield edge.reversed()


def _reach(edges: Sequence[Edge], starts: Iterable[str]) -> set[str]:
    reached, waiting = set(starts), deque(starts)
    while waiting:
        for edge in edges_to(edges, waiting.popleft()):
            if edge.left not in reached:
                reached.add(edge.left)
                waiting.append(edge.left)
    return reached
