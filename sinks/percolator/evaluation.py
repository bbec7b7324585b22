"""Finds out, at one cut, which rows of a table match which queries, as far as that may have changed."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException, RequestError, TransportError

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import key_documents, portions
from cdc.core.table import Table
from cdc.sinks.bulkheads import attempt
from cdc.sinks.opensearch.fields import write_documents
from cdc.sinks.opensearch.layout import Searchable
from cdc.sinks.percolator import search
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.matches import MATCH_BYTES, NONE, Found, Matches
from cdc.sinks.percolator.percolators import Percolators, Refused
from cdc.sinks.percolator.queries import Key, Queries
from cdc.sinks.percolator.search import QueryRefusedError

FEW_DOCUMENTS: Final = 500
"""A request of so few that takes too long is a query's fault; one of more is sent again in halves."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found about a table, and the queries that are refused there."""

    found: Found
    refused: Refused


@dataclass(slots=True)
class _Searched:
    """What queries match, found one after the other: of more than `most` matches, the queries with most are refused.

    At once, since all of them together may be far more than there is memory for. Whom a part of them refuses, all of
    them would refuse, too.
    """

    most: int
    found: dict[Key, Set[Key]] = field(default_factory=dict)
    refused: Refused = field(default_factory=dict)
    size: int = 0

    def put(self, key: Key, rows: Set[Key]) -> None:
        self.found[key] = rows
        self.size += len(rows)
        while self.size > self.most:
            largest = max(self.found, key=lambda each: (len(self.found[each]), each))
            self.size -= len(self.found.pop(largest))
            self.refused[largest] = str(search.too_many_rows(self.most))


@dataclass(slots=True)
class Evaluation:
    """Looks at one table at one cut; its rows are in their index already, as of that cut, and can be searched."""

    client: OpenSearch
    percolators: Percolators
    rows: Searchable
    version: int
    there: Matches
    refused: Refused = field(default_factory=dict)
    counts: Counter[Key] = field(default_factory=Counter)
    """How many more matches than before each query has."""
    at_once: int = sys.maxsize
    """Rows in one request, since more took too long."""
    settled: Set[Key] = NONE
    """The queries whose matches are counted, whatever the changed rows match: all that have changed or ended."""

    @property
    def most_matches(self) -> int:
        """Of the table, all queries together."""
        return self.percolators.settings.match_bytes // MATCH_BYTES

    @property
    def _table(self) -> Table:
        return self.rows.table

    def of_everything(self, queries: Queries) -> Outcome:
        """Search with all queries; those that match some row so far and are no more end."""
        queries = queries.for_table(self._table)
        self.refused |= self.percolators.build(self.client, self._table, queries, self.version)
        searched = self._search(queries)
        found = dict.fromkeys(self.there.queries(self._table.name), NONE) | searched
        self._count_searched(found, queries)
        return self._outcome(Found({}, found), queries)

    def of_changes(self, queries: Queries, changes: Iterable[FeedRows]) -> Outcome:
        """Search with the changed queries, and match the changed rows with all queries."""
        queries = queries.for_table(self._table)
        if queries.texts or queries.refused or queries.gone:
            self.refused |= self.percolators.update(self.client, self._table, queries, self.version)
        of_queries = self._search(queries)
        self._count_searched(of_queries, queries)
        self.settled = {*of_queries, *queries.refused, *queries.gone}
        of_rows, same = self._percolate(changes)
        return self._outcome(Found(of_rows, of_queries, same), queries)

    def _count_searched(self, found: Mapping[Key, Set[Key]], queries: Queries) -> None:
        ended = dict.fromkeys([*queries.refused, *queries.gone, *self.refused], NONE)
        for key, rows in {**found, **ended}.items():
            self.counts[key] = len(rows) - self.there.count_of(self._table.name, key)
        self._limit({})

    def _outcome(self, found: Found, queries: Queries) -> Outcome:
        # one that was refused while rows were matched, too
        ended = {key: frozenset[Key]() for key in (*queries.refused, *self.refused, *queries.gone)}
        rows = {row: matching - self.refused.keys() for row, matching in found.rows.items()}
        whole = Found(rows, {**found.queries, **ended}, found.same, ended.keys())
        return Outcome(whole, {**queries.refused, **self.refused})

    def _search(self, queries: Queries) -> dict[Key, Set[Key]]:
        """The rows that each query matches; a query that cannot be run is refused, whatever it meets."""
        searched = _Searched(self.most_matches)

        def find(key: Key, text: str) -> None:
            try:
                found = search.find_rows(self.client, self.percolators.cluster, self.rows, text, searched.most)
            except QueryRefusedError as refusal:
                searched.refused[key] = str(refusal)
            else:
                searched.put(key, found)

        for key, text in queries.texts.items():
            if key not in self.refused:
                refuse = partial(searched.refused.__setitem__, key)
                attempt(f"saved search {key}", partial(find, key, text), refuse, (OpenSearchException,))
        self._refuse(searched.refused)
        return searched.found

    def _refuse(self, failed: Refused) -> None:
        if failed:
            self.refused |= failed
            for key in failed:
                self.counts[key] = -self.there.count_of(self._table.name, key)
            self.percolators.drop(self.client, self._table, failed, self.version)
            self.client.indices.refresh(index=self.percolators.index_of(self._table.name))

    def _percolate(self, changes: Iterable[FeedRows]) -> tuple[dict[Key, set[Key]], set[Key]]:
        """The queries that match each changed row, none for deleted ones; and the rows that match as before."""
        found, same = dict[Key, set[Key]](), set[Key]()
        for part in changes:
            for portion in portions(part.rows):
                keys = key_documents(portion, self._table).to_pylist()
                texts = write_documents(portion, self._table)
                for places in self._requests(texts):
                    self._take(dict(self._match(keys[places], texts[places].to_pylist())), found, same)
            for portion in portions(part.gone):
                self._take({key: set() for key in key_documents(portion, self._table).to_pylist()}, found, same)
        return found, same

    def _match(self, keys: Sequence[Key], texts: Sequence[str]) -> Iterable[tuple[Key, set[Key]]]:
        """The queries that match each of these rows."""
        matching: list[set[Key]] = [set() for _ in keys]
        for query, slots in self._matching(texts):
            for slot in slots:
                matching[slot].add(query)
        return zip(keys, matching, strict=True)

    def _take(self, matching: Mapping[Key, set[Key]], found: dict[Key, set[Key]], same: set[Key]) -> None:
        """Keep what differs from the matches that there are: all of a batch's would be far more than its rows."""
        settled = self.settled | self.refused.keys()
        for row, queries in matching.items():
            before = self.there.queries_of(self._table.name, row)
            if queries == before:
                same.add(row)
            else:
                found[row] = queries
                self.counts.update(queries - before - settled)
                self.counts.subtract(before - queries - settled)
        self._limit(found)

    def _limit(self, found: Mapping[Key, set[Key]]) -> None:
        """Refuse the queries with the most matches until the others are few enough."""
        while self.there.count(self._table.name) + self.counts.total() > self.most_matches:
            largest = max({*self.there.queries(self._table.name), *self.counts} - self.refused.keys(), key=self._count)
            self._refuse({largest: str(search.too_many_rows(self.most_matches))})
            for queries in found.values():
                queries.discard(largest)

    def _count(self, query: Key) -> tuple[int, Key]:
        # of as many, always the same one: a batch may be repeated
        return self.there.count_of(self._table.name, query) + self.counts[query], query

    def _matching(self, texts: Sequence[str]) -> Sequence[tuple[Key, Sequence[int]]]:
        """Match documents with all queries; those that fail at one of them are refused."""
        index, own = self.percolators.index_of(self._table.name), OwnFields.beside(self._table)
        while True:
            try:
                return [*search.percolate(self.client, index, own, texts)]
            except TransportError as error:
                if isinstance(error, RequestError) and not isinstance(
                    search.to_refusal(self.percolators.cluster, error), QueryRefusedError
                ):
                    raise
                if not isinstance(error, RequestError) and len(texts) > FEW_DOCUMENTS:
                    return self._matching_halves(texts)
                # one query fails the whole request, or makes it take too long
                failing = search.find_failing(self.client, index, own, texts)
                if not failing:
                    raise
                self._refuse({key: f"it fails at a row: {reason}" for key, reason in failing.items()})

    def _matching_halves(self, texts: Sequence[str]) -> Sequence[tuple[Key, Sequence[int]]]:
        """Match the documents in two requests, and so many at once from here on: all queries together may be slow."""
        self.at_once = half = len(texts) // 2
        later = ((query, [half + slot for slot in slots]) for query, slots in self._matching(texts[half:]))
        return [*self._matching(texts[:half]), *later]

    def _requests(self, texts: pa.Array) -> Iterator[slice]:
        """Cut documents into requests, by the limits of their number and bytes."""
        settings, start, size = self.percolators.settings, 0, 0
        for place, length in enumerate(pc.binary_length(texts).to_pylist()):
            is_full = place - start >= min(settings.documents_at_once, self.at_once)
            if place > start and (is_full or size + length > settings.bulk_bytes):
                yield slice(start, place)
                start, size = place, 0
            size += length
        if len(texts):
            yield slice(start, len(texts))
