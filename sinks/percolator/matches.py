"""Which rows match which queries: what there is, and how it differs from what was just found. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from cdc.core.table import TableName
from cdc.sinks.percolator.queries import Key

NONE: Set[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of a table that matches a query, by their keys."""

    table: TableName
    query: Key
    row: Key


@dataclass(frozen=True, slots=True)
class Change:
    """A match that begins, or one that ends."""

    pair: Pair
    begins: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about one table at a cut.

    `rows`: all queries that match a changed row, none for a deleted one. `queries`: all rows that match a changed
    query, none for a deleted one. A pair of both counts as `rows` has it.
    """

    rows: Mapping[Key, Set[Key]] = field(default_factory=dict)
    queries: Mapping[Key, Set[Key]] = field(default_factory=dict)


class Matches:
    """The matches that there are, looked up by row and by query; two entries of a set each."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._by_row: dict[TableName, dict[Key, set[Key]]] = defaultdict(dict)
        self._by_query: dict[TableName, dict[Key, set[Key]]] = defaultdict(dict)
        for pair in pairs:
            self.put(Change(pair, begins=True))

    def put(self, change: Change) -> None:
        """Note a change; one that is noted already changes nothing."""
        pair = change.pair
        for index, at, other in (
            (self._by_row[pair.table], pair.row, pair.query),
            (self._by_query[pair.table], pair.query, pair.row),
        ):
            if change.begins:
                index.setdefault(at, set()).add(other)
            elif at in index:
                index[at].discard(other)
                if not index[at]:
                    del index[at]

    def queries(self, table: TableName) -> Set[Key]:
        """The queries that match any row of the table."""
        return self._by_query[table].keys()

    def pairs(self) -> Iterator[Pair]:
        for table, rows in self._by_row.items():
            for row, queries in rows.items():
                for query in queries:
                    yield Pair(table, query, row)

    def changes(self, table: TableName, found: Found) -> Iterator[Change]:
        """The matches that begin and end by what was found: in the same order whenever it is asked."""
        for row, queries in found.rows.items():
            old = self._by_row[table].get(row, NONE)
            for query in sorted(old ^ queries):
                yield Change(Pair(table, query, row), query in queries)
        for query, rows in found.queries.items():
            old = self._by_query[table].get(query, NONE)
            for row in sorted((old ^ rows) - found.rows.keys()):
                yield Change(Pair(table, query, row), row in rows)
