"""How a change of a table reaches a view: the plan that the statement's analysis makes, and a refresh carries out.

A view's row is computed anew when a row that it was made of changes. Two questions decide which rows those are:

- Touched keys: which rows of the view can a changed row have reached? From the changed row, along equalities of the
  statement, to a table that gives the view's key.
- Needed rows: which rows of every table make these rows of the view? From the view's key, along the same equalities,
  to every table.

Equalities are the edges of a graph whose nodes are the statement's uses of tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc.core.table import TableName


@dataclass(frozen=True, slots=True)
class TableUse:
    """One use of a table in a statement; `alias` is unique in it."""

    alias: str
    table: TableName


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows of two uses belong together where these columns are equal, in order."""

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]

    def reversed(self) -> "Edge":
        return Edge(self.right, self.right_columns, self.left, self.left_columns)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A use that gives columns of the view's key: its columns, and the names that these have in the view."""

    alias: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnchorGroup:
    """The uses from which the rows of some keys are found: from each, since each gives some rows of the view.

    One anchor, or several for the branches of a UNION ALL or the sides of a FULL JOIN. A key of two columns that two
    tables give has two groups: rows of the view are restricted by either column.
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

    `columns`: per table, those that the statement reads. `routes`: per use, from its changed rows to keys. `whole`: per use without a route, why its changes touch every row
    of the view.
    """

    uses: Mapping[str, TableUse]
    columns: Mapping[TableName, Sequence[str]]
    edges: Sequence[Edge]
    routes: Mapping[str, Route]
    whole: Mapping[str, str]

    def edges_from(self, alias: str) -> Iterator[Edge]:
        """The edges of a use, each with the use on its left."""
        for edge in self.edges:
            if edge.left == alias:
                yield edge
            elif edge.right == alias:
                yield edge.reversed()
