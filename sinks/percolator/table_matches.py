"""The matches of one table: a number of each row's set of queries, and the sets. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import partial

from cdc.sinks.percolator.queries import Key
from cdc.sinks.percolator.query_sets import QuerySets
from cdc.sinks.percolator.row_sets import RowSets


class TableMatches:
    """The matches that there are. Many rows match the same queries: such a set of queries is kept once."""

    def __init__(self, rows: RowSets | None = None) -> None:
        self._rows = rows or RowSets()
        self._sets = QuerySets()
        self._counts = Counter[Key]()
        self._queries: dict[Key, Key] = {}

    def put(self, query: Key, row: Key, *, begins: bool) -> None:
        """Note that a match begins or ends; what is noted already changes nothing."""
        self._rows.update(row, partial(self._change, query, begins))

    def _change(self, query: Key, begins: bool, number: int) -> int:
        # one text of a query in all sets, not one of each record
        changed = self._sets.change(number, self._queries.setdefault(query, query), begins)
        if changed != number:
            self._counts[query] += 1 if begins else -1
        if not self._counts[query]:
            del self._counts[query], self._queries[query]
        return changed

    def queries(self) -> Set[Key]:
        return self._counts.keys()

    def queries_of(self, row: Key) -> frozenset[Key]:
        return frozenset(self._sets.sets[self._rows.number_of(row)])

    def count_of(self, query: Key) -> int:
        return self._counts[query]

    def count(self) -> int:
        return self._counts.total()

    def pairs(self, queries: Set[Key]) -> Iterator[tuple[Key, Key]]:
        """The matches of these queries: query and row. Looks at the numbers of all rows."""
        for row, number in self._rows.select(self._sets.meeting(queries)):
            for query in self._sets.sets[number]:
                if query in queries:
                    yield query, row

    def ended(self, found: Mapping[Key, Set[Key]]) -> dict[Key, list[Key]]:
        """Of each of these queries, the rows that match it and are not among those that were found."""
        ended: dict[Key, list[Key]] = {query: [] for query in found}
        for query, row in self.pairs(found.keys()):
            if row not in found[query]:
                ended[query].append(row)
        return ended

    def begun(self, query: Key, found: Set[Key], ended: int) -> Iterator[Key]:
        """The rows that were found and do not match the query so far; `ended`: how many matched and were not found."""
        # usually none: then no row is looked up
        if self.count_of(query) - ended < len(found):
            yield from (row for row in found if query not in self._sets.sets[self._rows.number_of(row)])
