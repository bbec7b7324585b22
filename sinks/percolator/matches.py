"""Which rows match which queries: what there is, and how it differs from what was just found. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from cdc.core.table import TableName
from cdc.sinks.percolator.queries import Key
from cdc.sinks.percolator.table_matches import TableMatches

NONE: Final[frozenset[Key]] = frozenset()
MATCH_BYTES: Final = 250
"""What a match may take, measured with 900,000 and keys of 45 bytes: 102 to keep it, where few rows match the same two
queries, and 125 for what was found while its table is matched as a whole. A query that one row matches takes 250 more.
"""


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
    """The matches that there are, table by table."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._tables: dict[TableName, TableMatches] = defaultdict(TableMatches)
        for change in changes:
            self.put(change)

    def put(self, change: Change) -> None:
        """Note a change; one that is noted already changes nothing."""
        pair = change.pair
        self._tables[pair.table].put(pair.query, pair.row, begins=change.begins)

    def queries(self, table: TableName) -> Set[Key]:
        """The queries that match any row of the table."""
        return self._tables[table].queries()

    def queries_of(self, table: TableName, row: Key) -> frozenset[Key]:
        """The queries that match a row."""
        return self._tables[table].queries_of(row)

    def rows_of(self, table: TableName, queries: Set[Key]) -> dict[Key, set[Key]]:
        """The rows that match each of these queries. Looks at all rows that match any."""
        found: dict[Key, set[Key]] = {query: set() for query in queries}
        for query, row in self._tables[table].pairs(queries):
            found[query].add(row)
        return found

    def count_of(self, table: TableName, query: Key) -> int:
        """How many rows match a query."""
        return self._tables[table].count_of(query)

    def count(self, table: TableName) -> int:
        """How many matches there are in a table."""
        return self._tables[table].count()

    def pairs(self) -> Iterator[Pair]:
        for table, matches in self._tables.items():
            for query, row in matches.pairs(matches.queries()):
                yield Pair(table, query, row)

    def changes(self, table: TableName, found: Found) -> Iterator[Change]:
        """The matches that begin and end by what was found: in the same order whenever it is asked.

        They may be `put` one by one meanwhile.
        """
        for row, queries in found.rows.items():
            for query in sorted(self.queries_of(table, row) ^ queries):
                yield Change(Pair(table, query, row), query in queries)
        matches = self._tables[table]
        # not `rows_of`: beside what was found, the texts of all rows once more would be the most of the memory
        all_ended = matches.ended(found.queries)
        for query, rows in found.queries.items():
            same = NONE if query in found.ended else found.same
            ended = all_ended.pop(query)
            differing = [*ended, *matches.begun(query, rows, len(ended))]
            for row in sorted(row for row in differing if row not in found.rows and row not in same):
                yield Change(Pair(table, query, row), row in rows)
