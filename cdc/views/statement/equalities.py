"""The equalities of a statement that join rows: the links of a view's plan."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from cdc.columns.rows.join_fingerprints import comparison_type
from cdc.columns.types.arrow_types import arrow_type
from cdc.views.plan import Edge, Link
from cdc.views.statement.lineage import BaseColumn, Lineage, Sources, name_outputs, optional_sources
from cdc.views.statement.statement import Statement


@dataclass(frozen=True, slots=True)
class _Clause:
    """A condition, and the names in FROM whose rows take part, or meet others (`joined`), only where it holds.

    `optional`: the names that may have no row where it is asked.

    A condition of an outer join does not restrict the side that the join keeps: in `a JOIN c LEFT JOIN b ON
    a.id = c.a_id`, rows of `a` and `c` meet that are not equal.
    """

    condition: exp.Expr
    filtered: frozenset[str]
    joined: frozenset[str]
    optional: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an equality: the columns that its value comes from.

    `is_filtered`: do their rows take part only where it holds? `is_joined`: do they meet the other side's only there?
    """

    sources: Sources
    is_filtered: bool
    is_joined: bool


def find_links(statement: Statement, lineage: Lineage) -> list[Link]:
    """The links between uses. Equalities of one clause between the same two uses are one link."""
    finder = _LinkFinder(statement, lineage)
    return [link for scope in lineage.scopes for clause in _clauses(scope) for link in finder.find(scope, clause)]


def find_equated(statement: Statement, lineage: Lineage) -> set[frozenset[BaseColumn]]:
    """The pairs of columns that are equal wherever rows of both meet, whichever rows an outer join keeps."""
    finder = _LinkFinder(statement, lineage)
    return {
        frozenset((left, right))
        for scope in lineage.scopes
        for clause in _clauses(scope)
        for one, other in finder.equalities(scope, clause)
        for left in one.sources
        for right in other.sources
        if one.is_joined or other.is_joined
    }


@dataclass(frozen=True, slots=True)
class _LinkFinder:
    statement: Statement
    lineage: Lineage

    def find(self, scope: Scope, clause: _Clause) -> Iterator[Link]:
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for sides in self.equalities(scope, clause):
            if not are_comparable(self.lineage, [column for side in sides for column in side.sources]):
                continue
            for side, other in (sides, sides[::-1]):
                if side.is_filtered and len(side.sources) == len(other.sources) == 1:
                    [(use, column)], [(other_use, other_column)] = side.sources, other.sources
                    pairs[use, other_use].append((column, other_column))
                elif side.is_filtered:
                    yield from _link_branches(side.sources, other.sources)
        for (use, other_use), columns in pairs.items():
            if use != other_use:
                mine, theirs = zip(*columns, strict=True)
                yield Link(use, (Edge(use, mine, other_use, theirs),))

    def equalities(self, scope: Scope, clause: _Clause) -> Iterator[tuple[_Side, _Side]]:
        condition = clause.condition
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            part = part.unnest()
            if isinstance(part, exp.EQ):
                yield self._side(scope, clause, part.this), self._side(scope, clause, part.expression)
            elif isinstance(part, exp.In) and isinstance(query := part.args.get("query"), exp.Expr):
                inner = self.lineage.scope_of(query)
                selected = name_outputs(inner)[0]
                yield self._side(scope, clause, part.this), _Side(self.lineage.output(inner, selected), True, True)

    def _side(self, scope: Scope, clause: _Clause, value: exp.Expr) -> _Side:
        names = {column.table for column in value.find_all(exp.Column)}
        return _Side(
            self.lineage.resolve(scope, value, clause.optional), names <= clause.filtered, names <= clause.joined
        )


def are_comparable(lineage: Lineage, columns: Iterable[BaseColumn]) -> bool:
    """Whether equal values of these columns are equal for whoever finds rows by them."""
    types = [comparison_type(arrow_type(lineage.derived.column(*column))) for column in columns]
    return None not in types and len(set(types)) == 1


def _link_branches(mine: Sources, theirs: Sources) -> Iterator[Link]:
    for use, column in sorted(mine):
        edges = tuple(Edge(use, (column,), other, (other_column,)) for other, other_column in sorted(theirs))
        if edges and all(edge.right != use for edge in edges):
            yield Link(use, edges)


def _clauses(scope: Scope) -> Iterator[_Clause]:
    """The conditions that a row of the scope has to meet, or by which it is joined."""
    query = scope.expression
    if not isinstance(query, exp.Select):
        return
    first = query.args.get("from_")
    before = {first.this.alias_or_name} if first else set()
    for join in query.args.get("joins") or []:
        name = join.this.alias_or_name
        if join.args.get("on"):
            filtered = frozenset(_filtered_by(join, before, name))
            # the rows of a FULL JOIN take part anyway, but meet only where they are equal
            optional = frozenset(optional_sources(scope, before_join=join))
            yield _Clause(join.args["on"], filtered, filtered or frozenset([name]), optional)
        before.add(name)
    if query.args.get("where"):
        # no column of a query around this one: its rows may take part without those in here
        yield _Clause(
            query.args["where"].this, frozenset(before), frozenset(before), frozenset(optional_sources(scope))
        )


def _filtered_by(join: exp.Join, before: set[str], name: str) -> set[str]:
    match join.side, join.kind:
        case _, "ANTI":
            return {name}
        case _, "SEMI":
            return {*before, name}
        case "LEFT", _:
            return {name}
        case "RIGHT", _:
            return before
        case "FULL", _:
            return set()
        case _:
            return {*before, name}
