"""Finds out, at one cut, which rows of a table match which queries, as far as that may have changed."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import documents, key_documents, portions
from cdc.core.table import Table
from cdc.sinks.opensearch.layout import Searchable
from cdc.sinks.percolator import search
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.matches import Found
from cdc.sinks.percolator.percolators import Percolators, Refused
from cdc.sinks.percolator.queries import Key, Queries
from cdc.sinks.percolator.search import QueryRefusedError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found about a table, and the queries that are refused there."""

    found: Found
    refused: Refused


@dataclass(slots=True)
class Evaluation:
    """Looks at one table at one cut; its rows are in their index already, as of that cut, and can be searched."""

    client: OpenSearch
    percolators: Percolators
    rows: Searchable
    version: int
    refused: Refused = field(default_factory=dict)

    @property
    def _table(self) -> Table:
        return self.rows.table

    def of_everything(self, queries: Queries, matching: Iterable[Key]) -> Outcome:
        """Search with all queries. `matching`: those that match some row so far; it ends for those that are no more."""
        self.refused |= self.percolators.build(self.client, self._table, queries, self.version)
        found = dict.fromkeys([*matching, *queries.refused], frozenset[Key]()) | self._search(queries)
        return self._outcome(Found({}, found), queries)

    def of_changes(self, queries: Queries, changes: Iterable[FeedRows]) -> Outcome:
        """Search with the changed queries, and match the changed rows with all queries."""
        if queries.texts or queries.refused or queries.gone:
            self.refused |= self.percolators.update(self.client, self._table, queries, self.version)
        of_queries = self._search(queries)
        of_rows = self._percolate(changes)
        return self._outcome(Found(of_rows, of_queries), queries)

    def _outcome(self, found: Found, queries: Queries) -> Outcome:
        # one that was refused while rows were matched, too
        ended = {key: frozenset[Key]() for key in (*queries.refused, *self.refused, *queries.gone)}
        rows = {row: matching - self.refused.keys() for row, matching in found.rows.items()}
        return Outcome(Found(rows, {**found.queries, **ended}), {**queries.refused, **self.refused})

    def _search(self, queries: Queries) -> dict[Key, Set[Key]]:
        """The rows that each query matches; a query that cannot be run is refused."""
        found, failed = dict[Key, Set[Key]](), Refused()
        for key, text in queries.texts.items():
            if key not in self.refused:
                try:
                    found[key] = search.find_rows(self.client, self.percolators.cluster, self.rows, text)
                except QueryRefusedError as refusal:
                    failed[key] = str(refusal)
        self._refuse(failed)
        return found

    def _refuse(self, failed: Refused) -> None:
        if failed:
            self.refused |= failed
            self.percolators.drop(self.client, self._table, failed, self.version)
            self.client.indices.refresh(index=self.percolators.index_of(self._table.name))

    def _percolate(self, changes: Iterable[FeedRows]) -> dict[Key, Set[Key]]:
        """The queries that match each changed row; none for deleted ones."""
        found = dict[Key, set[Key]]()
        for part in changes:
            for portion in portions(part.rows):
                keys = key_documents(portion, self._table).to_pylist()
                for places in _requests(texts := documents(portion, self._table).to_pylist(), self.percolators):
                    some = keys[places]
                    found |= {key: set() for key in some}
                    for query, slots in self._matching(texts[places]):
                        for slot in slots:
                            found[some[slot]].add(query)
            found |= {key: set() for key in key_documents(part.gone, self._table).to_pylist()}
        return {key: frozenset(queries) for key, queries in found.items()}

    def _matching(self, texts: Sequence[str]) -> Sequence[tuple[Key, Sequence[int]]]:
        """Match documents with all queries; those that fail at one of them are refused."""
        index, own = self.percolators.index_of(self._table.name), OwnFields.beside(self._table)
        while True:
            try:
                return [*search.percolate(self.client, index, own, texts)]
            except RequestError as error:
                if not isinstance(search.refusal(self.percolators.cluster, error), QueryRefusedError):
                    raise
                # one query fails the whole request
                failing = search.find_failing(self.client, index, own, texts)
                if not failing:
                    raise
                self._refuse({key: f"it fails at a row: {reason}" for key, reason in failing.items()})


def _requests(texts: Sequence[str], percolators: Percolators) -> Iterator[slice]:
    """Cut documents into requests, by the limits of their number and bytes."""
    most, most_bytes, start, size = percolators.settings.documents_at_once, percolators.settings.bulk_bytes, 0, 0
    for place, text in enumerate(texts):
        if place > start and (place - start >= most or size + len(text) > most_bytes):
            yield slice(start, place)
            start, size = place, 0
        size += len(text)
    if texts:
        yield slice(start, len(texts))
