"""The equalities of a statement that join rows: the links of a view's plan."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from cdc.columns.rows.join_fingerprints import comparison_type
from cdc.columns.types.arrow_types import arrow_type
from cdc.views.plan import Edge, Link
from cdc.views.statement.analysis.nullability import optional_sources
from cdc.views.statement.analysis.provenance import BaseColumn, Provenance, Sources
from cdc.views.statement.tree.nodes import Join, Select, query_of


@dataclass(frozen=True, slots=True)
class _Clause:
    """A condition, and the sources whose rows take part, or meet others (`joined`), only where it holds.

    `optional`: the sources that may have no row where it is asked.

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


def find_links(provenance: Provenance) -> list[Link]:
    """The links between uses. Equalities of one clause between the same two uses are one link."""
    finder = _LinkFinder(provenance)
    selects = provenance.tree.selects
    return [link for query in selects for clause in _clauses(query) for link in finder.find(query, clause)]


def find_equated(provenance: Provenance) -> set[frozenset[BaseColumn]]:
    """The pairs of columns that are equal wherever rows of both meet, whichever rows an outer join keeps."""
    finder = _LinkFinder(provenance)
    return {
        frozenset((left, right))
        for query in provenance.tree.selects
        for clause in _clauses(query)
        for one, other in finder.equalities(query, clause)
        for left in one.sources
        for right in other.sources
        if one.is_joined or other.is_joined
    }


@dataclass(frozen=True, slots=True)
class _LinkFinder:
    provenance: Provenance

    def find(self, query: Select, clause: _Clause) -> Iterator[Link]:
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for sides in self.equalities(query, clause):
            if not are_comparable(self.provenance, [column for side in sides for column in side.sources]):
                continue
            # a link is one-way: that `b` is found by `a` says nothing of finding `a` by `b`
            for side, other in (sides, sides[::-1]):
                if side.is_filtered and len(side.sources) == len(other.sources) == 1:
                    [(use, column)], [(other_use, other_column)] = side.sources, other.sources
                    # equalities of one clause hold together, so rows are found by all of them at once
                    pairs[use, other_use].append((column, other_column))
                elif side.is_filtered:
                    yield from _link_branches(side.sources, other.sources)
        for (use, other_use), columns in pairs.items():
            if use != other_use:
                mine, theirs = zip(*columns, strict=True)
                yield Link(use, (Edge(use, mine, other_use, theirs),))

    def equalities(self, query: Select, clause: _Clause) -> Iterator[tuple[_Side, _Side]]:
        for part in list_conditions(clause.condition):
            if isinstance(part, exp.EQ):
                yield self._side(query, clause, part.this), self._side(query, clause, part.expression)
            elif isinstance(part, exp.In) and (inner := query_of(part.args.get("query"))) and inner.outputs:
                # the rows of the subquery are there for this question only
                found = self.provenance.output(inner, inner.outputs[0].name)
                yield self._side(query, clause, part.this), _Side(found, True, True)

    def _side(self, query: Select, clause: _Clause, value: exp.Expr) -> _Side:
        names = {column.table for column in value.find_all(exp.Column)}
        found = self.provenance.resolve(query, value, clause.optional)
        return _Side(found, names <= clause.filtered, names <= clause.joined)


def list_conditions(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold for one."""
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        yield part.unnest()


def are_comparable(provenance: Provenance, columns: Iterable[BaseColumn]) -> bool:
    """Whether equal values of these columns are equal for whoever finds rows by them."""
    types = [comparison_type(arrow_type(provenance.computed.column(*column))) for column in columns]
    return None not in types and len(set(types)) == 1


def _link_branches(mine: Sources, theirs: Sources) -> Iterator[Link]:
    for use, column in sorted(mine):
        # all or none: a row found through one branch may be in a combination with a row of another
        edges = tuple(Edge(use, (column,), other, (other_column,)) for other, other_column in sorted(theirs))
        if edges and all(edge.right != use for edge in edges):
            yield Link(use, edges)


def _clauses(query: Select) -> Iterator[_Clause]:
    """The conditions that a row of the query has to meet, or by which it is joined."""
    before = {query.first.name} if query.first else set[str]()
    for join in query.joins:
        if join.on:
            filtered = frozenset(_filtered_by(join, before))
            # the rows of a FULL JOIN take part anyway, but meet only where they are equal
            optional = frozenset(optional_sources(query, before_join=join))
            yield _Clause(join.on, filtered, filtered or frozenset([join.source.name]), optional)
        before.add(join.source.name)
    if where := query.clause("where"):
        # no column of a query around this one: its rows may take part without those in here
        yield _Clause(where.this, frozenset(before), frozenset(before), frozenset(optional_sources(query)))


def _filtered_by(join: Join, before: set[str]) -> set[str]:
    match join.side, join.kind:
        case _, "ANTI":
            # a row without a match stays, so it does not depend on the other side; what rules it out does
            return {join.source.name}
        case _, "SEMI":
            return {*before, join.source.name}
        case "LEFT", _:
            return {join.source.name}
        case "RIGHT", _:
            return before
        case "FULL", _:
            # every row of both sides stays
            return set()
        case _:
            return {*before, join.source.name}
