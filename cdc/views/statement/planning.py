"""From a statement to the plan by which its view is kept up."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cdc.core.table import TableName
from cdc.views.plan import Anchor, AnchorGroup, DerivedColumn, Link, Route, ViewPlan
from cdc.views.statement.analysis.computed_columns import ComputeIn
from cdc.views.statement.analysis.demand import list_read_columns
from cdc.views.statement.analysis.equivalences import are_comparable, find_equated, find_links
from cdc.views.statement.analysis.provenance import BaseColumn, Provenance, Sources
from cdc.views.statement.statement import Statement


def plan_view(statement: Statement, key: Sequence[str], compute: ComputeIn) -> ViewPlan:
    """Plan how changes of the statement's tables reach a view with this key.

    `compute`: asked last, for the expressions by which rows would be found.
    """
    if statement.admission.opaque:
        return _plan_whole(statement)
    provenance, links = _trace(statement, compute)
    uses = {use.alias: use for use in statement.tree.uses}
    groups = _group_anchors(provenance, key)
    ways = {group: _find_way(links, group) for group in groups}
    # rows of a key are found only if links lead from it to every use
    complete = {group: way for group, way in ways.items() if _reached(group, way) == uses.keys()}
    routes = _find_routes(links, complete)
    reached = [_reached(group, way) for group, way in ways.items()]
    # what no route leads from touches all rows: slow, and always right
    whole = _explain_whole(reached, [alias for alias in uses if alias not in routes])
    plan = ViewPlan(uses, list_read_columns(statement), {}, routes, complete, whole)
    return replace(plan, derived=_select_derived(plan, provenance.computed.found))


def _plan_whole(statement: Statement) -> ViewPlan:
    """The plan of a statement that the analysis does not follow: every change of any column touches every row."""
    first = statement.admission.opaque[0]
    uses = {use.alias: use for use in statement.tree.uses}
    return ViewPlan(
        uses, list_read_columns(statement), {}, {}, {}, dict.fromkeys(uses, f"{first.name}{first.where}: {first.why}")
    )


def _select_derived(
    plan: ViewPlan, found: Mapping[TableName, Mapping[str, DerivedColumn]]
) -> dict[TableName, list[DerivedColumn]]:
    """The derived columns by which a refresh finds rows, and from which it goes on to others."""
    named = [*plan.found_by(), *plan.followed_from()]
    used = {(plan.uses[alias].table, column) for alias, columns in named for column in columns}
    return {
        name: [derived for column, derived in columns.items() if (name, column) in used]
        for name, columns in found.items()
    }


def _trace(statement: Statement, compute: ComputeIn) -> tuple[Provenance, Sequence[Link]]:
    equated: Collection[frozenset[BaseColumn]] = set()
    while True:
        provenance = Provenance(statement, equated, compute)
        more = find_equated(provenance)
        # an equality with COALESCE counts once the columns in it are known to be equal
        if len(more) == len(equated):
            return provenance, find_links(provenance)
        equated = more


def _explain_whole(reached: Sequence[Collection[str]], aliases: Iterable[str]) -> dict[str, str]:
    if not reached:
        return dict.fromkeys(aliases, "no column of a table is a column of the view's key")
    return {
        alias: "no equality leads from it to the view's key"
        if all(alias not in some for some in reached)
        else "the view's key does not lead to every table"
        for alias in aliases
    }


def _group_anchors(provenance: Provenance, key: Sequence[str]) -> list[AnchorGroup]:
    """The groups of uses that give the key's columns, one for each set of uses that gives a column.

    A column that an outer join may leave null gives none: no row leads to the result in which it is null. Nor does one
    that branches give as values of several types, which the result has as one.
    """
    root = provenance.tree.root
    certain = [name for name in key if not provenance.nullability.may_be_missing(root, name)]
    sources = {name: found for name in certain if (found := provenance.output(root, name))}
    sources = {name: found for name, found in sources.items() if are_comparable(provenance, found)}
    # columns of the same uses are one anchor: together they find fewer rows
    starts = dict.fromkeys(frozenset(use for use, _ in found) for found in sources.values())
    return [AnchorGroup(tuple(_anchor(sources, use) for use in sorted(group))) for group in starts]


def _anchor(sources: Mapping[str, Sources], use: str) -> Anchor:
    columns = {name: column for name, found in sources.items() for alias, column in sorted(found) if alias == use}
    return Anchor(use, tuple(columns.values()), tuple(columns))


def _find_way(links: Sequence[Link], group: AnchorGroup) -> list[Link]:
    """Links from a group's anchors to the other uses, each from uses that come before it."""
    way, reached = list[Link](), set(group.aliases)
    while found := next(_links_to_new(links, reached), None):
        way.append(found)
        reached.add(found.use)
    return way


def _links_to_new(links: Iterable[Link], reached: Collection[str]) -> Iterator[Link]:
    for link in links:
        # each end of it: a row may come with rows of any branch
        if link.use not in reached and all(edge.right in reached for edge in link.edges):
            yield link


def _reached(group: AnchorGroup, way: Sequence[Link]) -> set[str]:
    return {*group.aliases, *(link.use for link in way)}


def _find_routes(links: Sequence[Link], groups: Iterable[AnchorGroup]) -> dict[str, list[Route]]:
    """Per use, short routes to anchors of any group, together for all combinations that have a row of it."""
    routes = {anchor.alias: [Route(group, anchor)] for group in reversed([*groups]) for anchor in group.anchors}
    # in rounds, so that a route is never longer than another one would be
    while found := {link.use: link for link in _links_to_new(links, routes)}:
        routes |= {
            use: [replace(on, edges=(edge, *on.edges)) for edge in link.edges for on in routes[edge.right]]
            for use, link in found.items()
        }
    return routes
