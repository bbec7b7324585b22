"""Which rows match which queries: what there is, and how it differs from what was just found. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from cdc.core.table import TableName
from cdc.sinks.percolator.queries import Key

NONE: Set[Key] = frozenset()
MATCH_BYTES: Final = 300
"""Memory of a match: two entries of a set, and its share of the keys."""


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
    query, none for a deleted one. A pair of both counts as `rows` has it. `same`: changed rows that match what they did
    before. `ended`: queries that match nothing any more, `same` rows included.
    """

    rows: Mapping[Key, Set[Key]] = field(default_factory=dict)
    queries: Mapping[Key, Set[Key]] = field(default_factory=dict)
    same: Set[Key] = NONE
    ended: Set[Key] = NONE


class Matches:
    """The matches that there are, looked up by row and by query; two entries of a set each."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._by_row: dict[TableName, dict[Key, set[Key]]] = defaultdict(dict)
        self._by_query: dict[TableName, dict[Key, set[Key]]] = defaultdict(dict)
        self._counts = Counter[TableName]()
        for pair in pairs:
            self.put(Change(pair, begins=True))

    def put(self, change: Change) -> None:
        """Note a change; one that is noted already changes nothing."""
        pair = change.pair
        if change.begins != (pair.row in self.rows_of(pair.table, pair.query)):
            self._counts[pair.table] += 1 if change.begins else -1
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

    def queries_of(self, table: TableName, row: Key) -> Set[Key]:
        """The queries that match a row."""
        return self._by_row[table].get(row, NONE)

    def rows_of(self, table: TableName, query: Key) -> Set[Key]:
        """The rows that match a query."""
        return self._by_query[table].get(query, NONE)

    def count(self, table: TableName) -> int:
        """How many matches there are in a table."""
        return self._counts[table]

    def pairs(self) -> Iterator[Pair]:
        for table, rows in self._by_row.items():
            for row, queries in rows.items():
                for query in queries:
                    yield Pair(table, query, row)

    def changes(self, table: TableName, found: Found) -> Iterator[Change]:
        """The matches that begin and end by what was found: in the same order whenever it is asked."""
        for row, queries in found.rows.items():
            for query in sorted(self.queries_of(table, row) ^ queries):
                yield Change(Pair(table, query, row), query in queries)
        for query, rows in found.queries.items():
            same = NONE if query in found.ended else found.same
            differing = self.rows_of(table, query) ^ rows
            for row in sorted(row for row in differing if row not in found.rows and row not in same):
                yield Change(Pair(table, query, row), row in rows)
