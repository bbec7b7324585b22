"""The search follower: one index a table in OpenSearch, behind the lake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedBatch
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.documents import rows_of
from cdc.columns.rows.held import Held
from cdc.columns.spark_tasks import require_spark
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import Bookmark, Position
from cdc.core.schema_change import has_more_columns
from cdc.core.table import Table, TableName
from cdc.sinks.bulkheads import Stops, TableBulkhead
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.client import StandingClient, open_client, refresh
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import IndexNote, Searchable
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.search import read
from cdc.sinks.search.indexes import Indexes, TableIndex
from cdc.sinks.search.known import Known
from cdc.sinks.search.refusals import KeptRefusals
from cdc.sinks.search.state import SearchState, StateDocument
from cdc.sinks.search.write import IndexWriter

TABLES_AT_ONCE: Final = 4
"""Tables of a batch that are written at the same time: of small ones, most of the time goes into waiting."""


class SearchFollower:
    """A `FedFollower` that writes one index for each table.

    OpenSearch has no transactions over several documents. Every write has the version of its position and loses against
    a newer one, so a batch may be repeated. The position is written after a whole batch is acknowledged. An index is
    refreshed at the end of a batch, so searches see whole batches.

    The rows of a copy have the lowest version: all later changes are newer. `generation`: of the indexes, which nobody
    searches if it is not empty (`generations.py`).
    """

    def __init__(
        self, spark: SparkSession | None, settings: ClusterSettings, pipeline: str, name: str, generation: str = ""
    ) -> None:
        self._spark = spark
        self._cluster = Cluster.of(settings)
        self._owner = Owner(pipeline, name)
        prefix = settings.prefix or pipeline
        self._indexes = Indexes(self._cluster, self._owner, prefix, settings, generation)
        self._refusals = KeptRefusals(prefix, self._owner)
        self._writer = IndexWriter(self._indexes, self._refusals, self._digest_index)
        self._document = StateDocument.of(prefix, self._owner, generation)
        # of the node or the lake's store, not of a table
        self._bulkhead = TableBulkhead(name, (OpenSearchException, OSError))
        self._known = Known()
        self._client = StandingClient(self._cluster)

    @contextmanager
    def _writing(self) -> Iterator[OpenSearch]:
        """A client for a writer. After any failure nothing counts as known."""
        try:
            with self._client.use() as client:
                yield client
        except BaseException:
            self._known.forget()
            self._refusals.known.clear()
            raise

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create the follower's own indexes, and add new columns to a table's index; `load` creates a table's index.

        Stops a table that OpenSearch cannot hold, and one whose index is not ours.
        """
        if self._known.prepared and list(tables) == self._known.prepared:
            return
        with self._writing() as client:
            self._indexes.prepare_own(client)
            stops = self._read(client).stops
            going = [table for table in tables if table.name not in stops]
            self._stop(client, self._bulkhead.collect(partial(self._prepare, client), going))
            self._known.prepared = [*tables]

    def _prepare(self, client: OpenSearch, table: Table) -> None:
        self._writer.check(table)
        note = self._indexes.note(client, table.name)
        # one of another shape is filled anew
        if note and self._has_shape(note) and has_more_columns(note.table, table):
            self._indexes.add_fields(client, replace(note, table=table))
            self._known.indexes = None

    def load(self, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Fill a new index of the table, which then replaces the old one at once; until then it has no bookmark.

        Stops the table if rows of it are refused.
        """
        with self._writing() as client:
            self._known.indexes = None
            failed = self._bulkhead.collect(lambda each: self._writer.load(client, each, copy, bookmark), [table])
            self._stop(client, failed)
            if not failed:
                self._resume(client, table.name)

    def apply(self, batch: FeedBatch, position: Position) -> None:
        """Write every table of the batch, refresh the indexes, then write the position and the stops."""
        with self._writing() as client:
            state = self._read(client)
            if state.position is not None and state.position.covers(position):
                return
            there, version = self._there(client), layout.version_at(position)
            going = [name for name in batch.tables if name not in state.stops]
            # in the order mark, rows, refresh, position: after a kill in between, the batch is repeated with the same
            # versions, or the mark tells that the lake has lost it
            with self._marking(client, replace(state, begun=position), going) as marked:
                bulkhead = replace(self._bulkhead, at_once=TABLES_AT_ONCE)
                stops = bulkhead.collect(partial(self._write, client, there, batch, version, marked), going)
            refresh(client, [self._indexes.name_of(name) for name in going if name not in stops])
            # before the position, which stores the reasons: a stopped table must lose its bookmark first
            self._forget_copies(client, [there[n] for n, stop in stops.items() if n in there and not stop.is_lost])
            if stops:
                self._known.indexes = None
            # `forget_position` may have stored a version above this position's
            self._store(client, SearchState(position, {**state.stops, **stops}, max(version, state.version)))

    def _write(
        self,
        client: OpenSearch,
        there: Mapping[TableName, TableIndex],
        batch: FeedBatch,
        version: int,
        marked: Callable[[], None],
        name: TableName,
    ) -> None:
        if name not in there or there[name].note.bookmark is None or not self._has_shape(there[name].note):
            raise self._writer.missing_copy(name)
        self._writer.apply(client, there[name], batch.tables[name], version, marked)

    @contextmanager
    def _marking(
        self, client: OpenSearch, state: SearchState, going: Sequence[TableName]
    ) -> Iterator[Callable[[], None]]:
        """Store which batch begins, while its first documents are made: the function given waits until it is stored."""
        if not going or state == self._known.state:
            yield lambda: None
            return
        # as `_stop` does: the first state may be a mark
        begun = replace(state, version=max(state.version, layout.COPY_VERSION))
        with ThreadPoolExecutor(1) as thread:
            storing = thread.submit(self._store, client, begun)
            yield storing.result
        # of a batch of which nothing was written
        storing.result()

    def bookmarks(self) -> dict[TableName, Bookmark]:
        with open_client(self._cluster) as client:
            there = self._indexes.of_tables(client)
            stops = self._known.state.stops if self._known.state else self._document.read(client).stops
        if self._known.indexes is not None:
            # a look, as `cdc follow` takes one now and then: an index may be gone, or another one
            self._known.indexes = there
        return {
            name: at.note.bookmark
            for name, at in there.items()
            # one of another shape is none: it is filled beside the old one, which is searched until then
            if at.note.bookmark and name not in stops and self._has_shape(at.note)
        }

    def stops(self) -> Stops:
        """The stopped tables, each with the reason: known to the writer, read by others."""
        if self._known.state:
            return self._known.state.stops
        with open_client(self._cluster) as client:
            return self._document.read(client).stops

    def position(self) -> Position | None:
        with open_client(self._cluster) as client:
            return self._document.read(client).position

    def furthest(self) -> Position | None:
        with open_client(self._cluster) as client:
            state = self._document.read(client)
        return state.begun or state.position

    def take_over(self) -> None:
        """Nothing: the versions of documents refuse an older state."""

    def forget_position(self) -> None:
        """Store no position, with a version above the last one's: a late write of the old position loses."""
        with self._writing() as client:
            state = self._read(client)
            if state.position:
                self._store(client, replace(state, position=None, begun=None, version=state.version + 1))

    def remarks(self) -> Sequence[PreconditionError]:
        """The documents that an index of a given shape does not take; of others, they stop the table."""
        remarks, self._refusals.remarks = self._refusals.remarks, []
        return remarks

    def searchable(self) -> dict[TableName, Searchable]:
        """The tables whose whole rows can be searched: as their indexes have them, and by which name."""
        with self._writing() as client:
            there, stops = self._there(client), self._read(client).stops
        return {
            name: Searchable(at.note.table, self._indexes.name_of(name))
            for name, at in there.items()
            if at.note.bookmark and name not in stops
        }

    def close(self) -> None:
        """Close the writer's connection; the next write opens it again, and knows nothing of before."""
        self._client.close()
        self._known.forget()

    def count(self, table: TableName, *, exact: bool = False) -> int | None:
        """Count the visible documents of the table's index; None if there is no index."""
        with open_client(self._cluster) as client:
            index = self._indexes.name_of(table)
            return int(client.count(index=index)["count"]) if client.indices.exists(index=index) else None

    def write_count(self, table: TableName) -> int:
        """The number of operations on the table's indexes since their creation, also on one that is being filled."""
        alias, only = self._indexes.name_of(table), {"ignore_unavailable": "true"}
        with open_client(self._cluster) as client:
            found = client.indices.stats(index=f"{alias},{layout.copies(alias)}", metric="indexing", params=only)
        return int(found["_all"]["primaries"].get("indexing", {}).get("index_total", 0))

    def rows(self, table: Table) -> DataFrame:
        """The table's rows as a search sees them now."""
        held = self.held(table)
        documents = read.documents(require_spark(self._spark), self._source(table))
        return rows_of(documents, held.table if held else table)

    def digest(self, table: Table) -> Digest:
        return read.digest(require_spark(self._spark), self._source(table))

    def held(self, table: Table) -> Held | None:
        return self._indexes.shape_of(table.name).held(table)

    def _has_shape(self, note: IndexNote) -> bool:
        return note.shape == self._indexes.shape_of(note.table.name).name

    def _source(self, table: Table) -> read.IndexSource:
        index = self._indexes.name_of(table.name)
        with open_client(self._cluster) as client:
            note = self._indexes.note(client, table.name)
            if note is None:
                raise HistoryLostError(f"index {index} is gone", "run `cdc follow`: the table is copied again")
            if not self._has_shape(note):
                told = f"index {index} is not yet as `indexes` describes it"
                raise PreconditionError(told, "run `cdc follow`: it fills another one beside it")
            return self._to_source(client, index)

    def _digest_index(self, client: OpenSearch, index: str) -> Digest:
        return read.digest(require_spark(self._spark), self._to_source(client, index))

    def _to_source(self, client: OpenSearch, index: str) -> read.IndexSource:
        settings = client.indices.get_settings(index=index)
        count = client.count(index=index)["count"]
        # the answer is under the index's own name, not under the alias
        shards = next(iter(settings.values()))["settings"]["index"]["number_of_shards"]
        return read.IndexSource(self._cluster, index, int(shards), count)

    def _there(self, client: OpenSearch) -> Mapping[TableName, TableIndex]:
        if self._known.indexes is None:
            self._known.indexes = self._indexes.of_tables(client)
        return self._known.indexes

    def _read(self, client: OpenSearch) -> SearchState:
        if self._known.state is None:
            self._known.state = self._document.read(client)
        return self._known.state

    def _store(self, client: OpenSearch, state: SearchState) -> None:
        self._document.store(client, state)
        self._known.state = state

    def _forget_copies(self, client: OpenSearch, found: Sequence[TableIndex]) -> None:
        self._indexes.forget_copies(client, found)
        self._known.indexes = None if found else self._known.indexes

    def _stop(self, client: OpenSearch, stops: Stops) -> None:
        """Store these stops at the current position."""
        if stops:
            there, state = self._indexes.of_tables(client), self._read(client)
            self._forget_copies(client, [there[name] for name in stops if name in there])
            # the first state may be a stop, before any position: its version is below every later one
            version = max(state.version, layout.COPY_VERSION)
            self._store(client, replace(state, stops={**state.stops, **stops}, version=version))

    def _resume(self, client: OpenSearch, name: TableName) -> None:
        """Remove the stop of a table, if there is one."""
        state = self._read(client)
        if name in state.stops:
            others = {each: stop for each, stop in state.stops.items() if each != name}
            self._store(client, replace(state, stops=others))
