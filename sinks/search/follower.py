"""The search follower: one index a table in OpenSearch, behind the lake."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from opensearchpy import OpenSearch
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedBatch
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.documents import rows_of
from cdc.columns.spark_tasks import require_spark
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import CopyLostError, HistoryLostError, PreconditionError, TableStoppedError
from cdc.core.plural import format_count
from cdc.core.position import Bookmark, Position
from cdc.core.schema_change import has_more_columns
from cdc.core.table import Table, TableName
from cdc.sinks.opensearch import layout, write
from cdc.sinks.opensearch.bulk import operations
from cdc.sinks.opensearch.client import Cluster, open_client
from cdc.sinks.opensearch.layout import IndexNote, Searchable
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.search import read
from cdc.sinks.search.indexes import Indexes, TableIndex
from cdc.sinks.search.state import SearchState, StateDocument, Stops


class SearchFollower:
    """A `FedFollower` that writes one index for each table.

    OpenSearch has no transactions over several documents. Every write has the version of its position and loses against
    a newer one, so a batch may be repeated. The position is written after a whole batch is acknowledged. An index is
    refreshed at the end of a batch, so searches see whole batches.

    The rows of a copy have the lowest version: all later changes are newer.
    """

    def __init__(self, spark: SparkSession | None, settings: ClusterSettings, pipeline: str, name: str) -> None:
        self._spark = spark
        self._settings = settings
        password = settings.password.get_secret_value() if settings.password else None
        self._cluster = Cluster(settings.url, settings.username, password, settings.ca_file)
        self._owner = Owner(pipeline, name)
        self._prefix = settings.prefix or pipeline
        self._indexes = Indexes(self._cluster, self._owner, self._prefix, settings)
        self._document = StateDocument.of(self._prefix, self._owner)
        # cached by the only writer; None before the first read
        self._stops: Stops | None = None

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create the follower's own indexes, and add new columns to a table's index; `load` creates a table's index.

        Stops a table that OpenSearch cannot hold, and one whose index is not ours.
        """
        with open_client(self._cluster) as client:
            # once per process: an older version of the toolkit may have created them with fewer fields
            self._indexes.prepare_own(client, renew=self._stops is None)
            stops = self._read(client).stops if self._stops is None else self._stops
            going = [table for table in tables if table.name not in stops]
            self._stop(client, _collect_stops(partial(self._prepare, client), going))

    def _prepare(self, client: OpenSearch, table: Table) -> None:
        _check(table)
        note = self._indexes.note(client, table.name)
        if note and has_more_columns(note.table, table):
            self._indexes.add_fields(client, IndexNote(self._owner, table, note.bookmark))

    def load(self, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Fill a new index of the table, which then replaces the old one at once; until then it has no bookmark.

        Stops the table if rows of it are refused.
        """
        with open_client(self._cluster) as client:
            failed = _collect_stops(lambda each: self._load(client, each, copy, bookmark), [table])
            self._stop(client, failed)
            if not failed:
                self._resume(client, table.name)

    def _load(self, client: OpenSearch, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        _check(table)
        self._indexes.note(client, table.name)
        # a new index, since delete_by_query raises versions, and the copy's rows would lose against those
        old, index = self._indexes.begin_copy(client, table)
        target = self._target(index, table, layout.COPY_VERSION)
        if refused := write.fill(copy, table, target):
            self._refuse(client, table.name, target.version, refused)
        client.indices.refresh(index=index)
        # last: without the note, a half filled index counts as not loaded
        self._indexes.put_note(client, index, IndexNote(self._owner, table, bookmark))
        self._indexes.put_in_place(client, table.name, index, old)

    def apply(self, batch: FeedBatch, position: Position) -> None:
        """Write every table of the batch, refresh the indexes, then write the position and the stops."""
        with open_client(self._cluster) as client:
            state = self._read(client)
            if state.position is not None and state.position.covers(position):
                return
            there, version = self._indexes.of_tables(client), layout.version_at(position)
            going = [name for name in batch.tables if name not in state.stops]
            # in the order rows, refresh, position: after a kill in between, the batch is repeated with the same
            # versions
            write_table = partial(self._write, client, there, batch, version)
            stops = _collect_stops(write_table, going)
            written = [self._indexes.name_of(name) for name in going if name not in stops]
            if written:
                client.indices.refresh(index=",".join(written))
            # before the position, which stores the reasons: a stopped table must lose its bookmark first
            whole = [there[name] for name, stop in stops.items() if name in there and not stop.is_lost]
            self._indexes.forget_copies(client, whole)
            # `forget_position` may have stored a version above this position's
            self._store(client, SearchState(position, {**state.stops, **stops}, max(version, state.version)))

    def bookmarks(self) -> dict[TableName, Bookmark]:
        with open_client(self._cluster) as client:
            there = self._indexes.of_tables(client)
            stops = self._document.read(client).stops if self._stops is None else self._stops
        return {name: at.note.bookmark for name, at in there.items() if at.note.bookmark and name not in stops}

    def stops(self) -> Stops:
        """The stopped tables, each with the reason: cached by the writer, read by others."""
        if self._stops is not None:
            return self._stops
        with open_client(self._cluster) as client:
            return self._document.read(client).stops

    def position(self) -> Position | None:
        with open_client(self._cluster) as client:
            return self._document.read(client).position

    def forget_position(self) -> None:
        """Store no position, with a version above the last one's: a late write of the old position loses."""
        with open_client(self._cluster) as client:
            state = self._read(client)
            if state.position:
                self._store(client, replace(state, position=None, version=state.version + 1))

    def remarks(self) -> Sequence[PreconditionError]:
        """Nothing: what an index does not take stops its table."""
        return ()

    def searchable(self) -> dict[TableName, Searchable]:
        """The tables whose whole rows can be searched: as their indexes have them, and by which name."""
        with open_client(self._cluster) as client:
            there, stops = self._indexes.of_tables(client), self._read(client).stops
        return {
            name: Searchable(at.note.table, self._indexes.name_of(name))
            for name, at in there.items()
            if at.note.bookmark and name not in stops
        }

    def close(self) -> None:
        """Nothing is held open between calls."""

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
        return rows_of(read.documents(require_spark(self._spark), self._source(table)), table)

    def digest(self, table: Table) -> Digest:
        return read.digest(require_spark(self._spark), self._source(table))

    def _source(self, table: Table) -> read.IndexSource:
        index = self._indexes.name_of(table.name)
        with open_client(self._cluster) as client:
            if not self._indexes.note(client, table.name):
                raise HistoryLostError(f"index {index} is gone", "run `cdc follow`: the table is copied again")
            settings = client.indices.get_settings(index=index)
            count = client.count(index=index)["count"]
        # the answer is under the index's own name, not under the alias
        shards = next(iter(settings.values()))["settings"]["index"]["number_of_shards"]
        return read.IndexSource(self._cluster, index, int(shards), count)

    def _read(self, client: OpenSearch) -> SearchState:
        state = self._document.read(client)
        self._stops = state.stops
        return state

    def _store(self, client: OpenSearch, state: SearchState) -> None:
        self._document.store(client, state)
        self._stops = state.stops

    def _stop(self, client: OpenSearch, stops: Stops) -> None:
        """Store these stops at the current position."""
        if stops:
            there, state = self._indexes.of_tables(client), self._read(client)
            self._indexes.forget_copies(client, [there[name] for name in stops if name in there])
            # the first state may be a stop, before any position: its version is below every later one
            version = max(state.version, layout.COPY_VERSION)
            self._store(client, replace(state, stops={**state.stops, **stops}, version=version))

    def _resume(self, client: OpenSearch, name: TableName) -> None:
        """Remove the stop of a table, if there is one."""
        state = self._read(client)
        if name in state.stops:
            others = {each: stop for each, stop in state.stops.items() if each != name}
            self._store(client, replace(state, stops=others))

    def _target(self, index: str, table: Table, version: int, *, is_alias: bool = False) -> write.Target:
        s = self._settings
        limits = (s.bulk_documents, s.bulk_bytes, s.bulk_retry_seconds)
        return write.Target(self._cluster, index, table.key, version, *limits, is_alias=is_alias)

    def _write(
        self,
        client: OpenSearch,
        there: Mapping[TableName, TableIndex],
        batch: FeedBatch,
        version: int,
        name: TableName,
    ) -> None:
        """Write a batch's changes of one table; raises TableStoppedError if it has no copy or refuses documents."""
        if name not in there or there[name].note.bookmark is None:
            lost = f"{name} has no copy in the index {self._indexes.name_of(name)}"
            raise CopyLostError(lost, "`cdc follow` copies it again from the lake by itself")
        table, alias = there[name].note.table, self._indexes.name_of(name)
        parts = (part for each in batch.tables[name] for part in operations(each, table, version))
        # an index of an older version has the alias' name itself
        target = self._target(alias, table, version, is_alias=there[name].index != alias)
        if refused := write.send(client, parts, target):
            self._refuse(client, name, version, refused)

    def _refuse(
        self, client: OpenSearch, table: TableName, version: int, refusals: Sequence[write.RefusedDocument]
    ) -> None:
        """Store the refusals, once however often the batch is repeated; raises TableStoppedError."""
        index = layout.refusals_index(self._prefix)
        for refusal in refusals:
            # the id is made of the write: a repeated batch replaces its own entries
            entry = {"table": str(table), "document": refusal.id, "version": version, "reason": refusal.reason}
            client.index(
                index=index, id=_digest(f"{table} {refusal.id} {version}"), body={**self._owner.as_json(), **entry}
            )
        first = refusals[0]
        documents = "a document" if len(refusals) == 1 else f"{format_count(len(refusals), 'document')}, first the one"
        raise TableStoppedError(
            f"{table}: the index refused {documents} where {first.where}: {first.reason}",
            f"change the row, or what refuses it, or name the table under leave_out; index {index} has all of them",
        )


def _check(table: Table) -> None:
    try:
        layout.check_table(table)
    except PreconditionError as error:
        raise TableStoppedError(error.what, error.remedy) from error


Item = TypeVar("Item", Table, TableName)


def _collect_stops(work: Callable[[Item], None], items: Iterable[Item]) -> dict[TableName, TableStoppedError]:
    """Do some work for each table; returns the tables for which it raised TableStoppedError."""
    stops: dict[TableName, TableStoppedError] = {}
    for item in items:
        try:
            work(item)
        except TableStoppedError as stop:
            stops[item if isinstance(item, TableName) else item.name] = stop
    return stops


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
