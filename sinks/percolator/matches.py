"""Which rows match which queries: what there is, and how it differs from what was just found. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cdc.core.table import TableName
from cdc.sinks.percolator.queries import Key

NONE: Final[frozenset[Key]] = frozenset()
Counted = TypeVar("Counted")
MATCH_BYTES: Final = 300
"""The most memory of a match, with its share of the keys: a third of it where many rows match the same queries."""


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
    """The matches that there are, by row.

    Many rows match the same queries: such a set of queries is kept once, with how many rows have it.
    """

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._by_row: dict[TableName, dict[Key, frozenset[Key]]] = defaultdict(dict)
        self._by_query: dict[TableName, Counter[Key]] = defaultdict(Counter)
        self._sets: dict[frozenset[Key], frozenset[Key]] = {}
        self._uses = Counter[frozenset[Key]]()
        for change in changes:
            self.put(change)

    def put(self, change: Change) -> None:
        """Note a change; one that is noted already changes nothing."""
        pair = change.pair
        before = self.queries_of(pair.table, pair.row)
        if change.begins == (pair.query in before):
            return
        _add(self._by_query[pair.table], pair.query, 1 if change.begins else -1)
        after = before | {pair.query} if change.begins else before - {pair.query}
        rows = self._by_row[pair.table]
        if after:
            rows[pair.row] = self._sets.setdefault(after, after)
            self._uses[after] += 1
        else:
            del rows[pair.row]
        if before and not _add(self._uses, before, -1):
            del self._sets[before]

    def queries(self, table: TableName) -> Set[Key]:
        """The queries that match any row of the table."""
        return self._by_query[table].keys()

    def queries_of(self, table: TableName, row: Key) -> frozenset[Key]:
        """The queries that match a row."""
        return self._by_row[table].get(row, NONE)

    def rows_of(self, table: TableName, queries: Set[Key]) -> dict[Key, set[Key]]:
        """The rows that match each of these queries. Looks at all rows that match any."""
        found: dict[Key, set[Key]] = {query: set() for query in queries}
        if found:
            for row, matching in self._by_row[table].items():
                for query in matching & queries:
                    found[query].add(row)
        return found

    def count_of(self, table: TableName, query: Key) -> int:
        """How many rows match a query."""
        return self._by_query[table][query]

    def count(self, table: TableName) -> int:
        """How many matches there are in a table."""
        return self._by_query[table].total()

    def pairs(self) -> Iterator[Pair]:
        for table, rows in self._by_row.items():
            for row, queries in rows.items():
                for query in queries:
                    yield Pair(table, query, row)

    def changes(self, table: TableName, found: Found) -> Iterator[Change]:
        """The matches that begin and end by what was found: in the same order whenever it is asked.

        They may be `put` one by one meanwhile.
        """
        for row, queries in found.rows.items():
            for query in sorted(self.queries_of(table, row) ^ queries):
                yield Change(Pair(table, query, row), query in queries)
        there = self.rows_of(table, found.queries.keys())
        for query, rows in found.queries.items():
            same = NONE if query in found.ended else found.same
            differing = there.pop(query) ^ rows
            for row in sorted(row for row in differing if row not in found.rows and row not in same):
                yield Change(Pair(table, query, row), row in rows)


def _add(counts: Counter[Counted], key: Counted, by: int) -> int:
    """Add to a count, and forget one that is zero; returns it."""
    counts[key] += by
    return counts[key] or counts.pop(key)
