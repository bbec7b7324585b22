"""How a change of a table reaches a view: the plan that the statement's analysis makes, and a refresh carries out.

A view's row is computed anew when a row that it was made of changes. Two questions decide which rows those are:

- Touched keys: which rows of the view can a changed row have reached? From the changed row, along links of the
  statement, to a table that gives the view's key.
- Needed rows: which rows of every table make these rows of the view? From the view's key, along the same links, to
  every table.

A combination is the rows of all uses that meet in one result: one row of each joined table, or none where an outer
join found none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.core.table import Column, TableName


@dataclass(frozen=True, slots=True)
class TableUse:
    """One use of a table in a statement; `alias` is unique in it."""

    alias: str
    table: TableName


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column that is computed from a row of one table: `sql`, in DuckDB's dialect, over the columns `inputs`."""

    column: Column
    inputs: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class Edge:
    """From a row of `left` to the rows of `right` whose columns are equal, in order."""

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A row of `use` is in a combination only together with a row at the end of one of these edges.

    Several edges for the branches of a UNION ALL or the sides of a FULL JOIN: where rows of more of them are in a
    combination, each is equal. In `a LEFT JOIN b ON b.a_id = a.id`, `b` is linked to `a`, and `a` is not to `b`.
    """

    use: str
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Anchor:
    """A use that gives columns of the view's key: its columns, and the names that these have in the view."""

    alias: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnchorGroup:
    """The uses from which the rows of some keys are found: from each, since each gives some rows of the view.

    A combination has a row of at least one of them, and each that it has gives the same key. One anchor, or several for
    the branches of a UNION ALL or the sides of a FULL JOIN. A key of two columns that two tables give has two groups:
    rows of the view are restricted by either column.
    """

    anchors: tuple[Anchor, ...]

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(anchor.alias for anchor in self.anchors)


@dataclass(frozen=True, slots=True)
class Route:
    """The way from a changed row to the keys that it touches: edges from its use to an anchor of a group."""

    group: AnchorGroup
    anchor: Anchor
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a view is kept up.

    `columns`: per table, those that the statement reads; `derived`: those that are computed from them. `routes`: per
    use, from its changed rows to keys, all to be followed. `ways`: per group, the links from its anchors to all other
    uses, in order. `whole`: per use without a route, why its changes touch every row of the view.
    """

    uses: Mapping[str, TableUse]
    columns: Mapping[TableName, Sequence[str]]
    derived: Mapping[TableName, Sequence[DerivedColumn]]
    routes: Mapping[str, Sequence[Route]]
    ways: Mapping[AnchorGroup, Sequence[Link]]
    whole: Mapping[str, str]

    def read_columns(self, name: TableName) -> list[str]:
        """The columns of a table's rows in a refresh, derived ones among them."""
        return [*self.columns[name], *(each.column.name for each in self.derived.get(name, ()))]

    def found_by(self) -> list[tuple[str, tuple[str, ...]]]:
        """The columns by which a refresh finds rows of each use: at the anchors, along links, and along routes."""
        links = [link for way in self.ways.values() for link in way]
        anchors = [anchor for group in self.ways for anchor in group.anchors]
        edges = [edge for routes in self.routes.values() for route in routes for edge in route.edges]
        found = [(anchor.alias, anchor.columns) for anchor in anchors]
        found += [(edge.left, edge.left_columns) for link in links for edge in link.edges]
        return found + [(edge.right, edge.right_columns) for edge in edges]

    def followed_from(self) -> list[tuple[str, tuple[str, ...]]]:
        """The columns whose values a refresh follows to other rows, of each use."""
        found = [(edge.right, edge.right_columns) for way in self.ways.values() for link in way for edge in link.edges]
        edges = [edge for routes in self.routes.values() for route in routes for edge in route.edges]
        return found + [(edge.left, edge.left_columns) for edge in edges]
