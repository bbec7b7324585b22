"""The search follower: one index a table in OpenSearch, behind the lake."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConflictError
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.digest import Digest
from cdc.columns.documents import rows_of
from cdc.columns.feed import FeedBatch, FeedRows, required
from cdc.columns.table_copy import Copy
from cdc.core.errors import HistoryLostError, PreconditionError, RefusedError
from cdc.core.position import Bookmark, Position
from cdc.core.schema_change import widens
from cdc.core.table import Table, TableName
from sinks.search import layout, read, write
from sinks.search.client import Cluster, reached
from sinks.search.layout import IndexNote, Owner
from sinks.search.settings import SearchSettings


class SearchFollower:
    """A `Follower` of `Copy`s and `FeedBatch`es.

    There are no transactions over several documents. Every write carries the version of its place in the log and loses
    against a newer one, so that a batch can come again from anywhere; the position is written when all of a batch is
    acknowledged, and an index shows a batch as a whole, when it is refreshed at the end.

    The rows of a copy carry the lowest version of the generation: where they stand in the log is the caller's matter,
    and everything that comes after them is newer.
    """

    def __init__(
        self, spark: SparkSession | None, settings: SearchSettings, pipeline: str, name: str, generation: int = 1
    ) -> None:
        self._spark = spark
        self._settings = settings
        password = settings.password.get_secret_value() if settings.password else None
        self._cluster = Cluster(settings.url, settings.username, password, settings.ca_file)
        self._owner = Owner(pipeline, name)
        self._prefix = settings.prefix or pipeline
        self._generation = generation

    def prepare(self, tables: Sequence[Table]) -> None:
        """Refuse tables that cannot be followed and indexes that are not ours; a table's index comes with its copy."""
        for table in tables:
            layout.check_table(table)
        with reached(self._cluster) as client:
            for table in tables:
                note = self._note(client, table.name)
                if note and widens(note.table, table):
                    self._widen(client, IndexNote(self._owner, table, note.bookmark))
            for name, mapping in self._own_indexes().items():
                _create_missing(client, name, {"mappings": mapping, "settings": self._own_settings()})

    def _widen(self, client: OpenSearch, note: IndexNote) -> None:
        """Give an index the fields of further columns; documents from before have none of them, which means null."""
        client.indices.put_mapping(index=self._index(note.table.name), body=layout.table_mapping(note))

    def load(self, table: Table, copy: Copy, bookmark: Bookmark) -> None:
        """Fill a new index of the table, which then takes the old one's place at once; until the last row is in, it has
        no bookmark."""
        layout.check_table(table)
        with reached(self._cluster) as client:
            self._note(client, table.name)
            # a new one, since delete_by_query would raise versions, and rows of the copy would lose against those
            old, index = self._begun(client, table)
            target = self._target(index, layout.version_of_copy(self._generation))
            refused = write.fill(copy, table, target)
            if refused:
                self._refuse(client, table.name, target.version, refused)
            client.indices.refresh(index=index)
            # last: whoever is killed before leaves an index that counts as not loaded
            loaded = IndexNote(self._owner, table, bookmark)
            client.indices.put_mapping(index=index, body={"_meta": loaded.as_meta()})
            self._put_in_place(client, table.name, index, old)

    def _begun(self, client: OpenSearch, table: Table) -> tuple[list[str], str]:
        """Make the index that a copy goes to; gives those that are behind the table's name now, too."""
        alias, s = self._index(table.name), self._settings
        behind = list(client.indices.get_alias(index=alias, params={"ignore_unavailable": "true"}))
        there = client.indices.get(index=layout.copies(alias), params={"filter_path": "*.mappings._meta"})
        # left by one that was killed
        for left in there.keys() - set(behind):
            client.indices.delete(index=left)
        fresh = layout.copy_name(alias, max(map(layout.copy_number, [*there, alias])) + 1)
        settings = layout.table_settings(table, s.shards, s.replicas, s.deletes_remembered_hours)
        mapping = layout.table_mapping(IndexNote(self._owner, table))
        # where there is no old one to be searched meanwhile, the new one can be seen to grow
        aliases: dict[str, Any] = {} if behind else {alias: {}}
        body = {"mappings": mapping, "settings": {"index": settings}, "aliases": aliases}
        client.indices.create(index=fresh, body=body)
        return behind, fresh

    def _put_in_place(self, client: OpenSearch, name: TableName, index: str, old: Sequence[str]) -> None:
        """Let searches see the new index instead of the old ones, between two requests."""
        gone = [{"remove_index": {"index": each}} for each in old]
        came = {"add": {"index": index, "alias": self._index(name)}}
        client.indices.update_aliases(body={"actions": [*gone, came]})

    def apply(self, batch: FeedBatch, position: Position) -> None:
        """Write every table of the batch, make it visible, then the position."""
        with reached(self._cluster) as client:
            stands, version = self._stands(client)
            if _has(stands, position):
                return
            notes = self._notes(client)
            tables = [_loaded(name, notes.get(name)) for name in batch.tables]
            # rows, refresh, position: killed in between, the batch comes again, under the same versions
            for table in tables:
                self._write(client, table, batch.tables[table.name], layout.version_at(position))
            if tables:
                client.indices.refresh(index=",".join(self._index(table.name) for table in tables))
            self._store(client, position, max(layout.version_at(position), version))

    def bookmarks(self) -> dict[TableName, Bookmark]:
        with reached(self._cluster) as client:
            notes = self._notes(client)
        return {name: note.bookmark for name, note in notes.items() if note.bookmark}

    def position(self) -> Position | None:
        with reached(self._cluster) as client:
            return self._stands(client)[0]

    def forget_position(self) -> None:
        """Store that there is none, above the version of the last one: a write that is still on its way loses."""
        with reached(self._cluster) as client:
            stands, version = self._stands(client)
            if stands:
                self._store(client, None, version + 1)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def count(self, table: TableName, *, exact: bool = False) -> int | None:
        """How many documents the table's index shows; None when there is none."""
        with reached(self._cluster) as client:
            index = self._index(table)
            return int(client.count(index=index)["count"]) if client.indices.exists(index=index) else None

    def written(self, table: TableName) -> int:
        """The operations that the table's indexes have taken since they were made, also one that is being filled."""
        alias, only = self._index(table), {"ignore_unavailable": "true"}
        with reached(self._cluster) as client:
            found = client.indices.stats(index=f"{alias},{layout.copies(alias)}", metric="indexing", params=only)
        return int(found["_all"]["primaries"].get("indexing", {}).get("index_total", 0))

    def rows(self, table: Table) -> DataFrame:
        """The table's rows as a search sees them now."""
        return rows_of(read.documents(required(self._spark), self._source(table)), table)

    def digest(self, table: Table) -> Digest:
        """The digest of the same rows."""
        return read.digest(required(self._spark), self._source(table))

    def _source(self, table: Table) -> read.Source:
        index = self._index(table.name)
        with reached(self._cluster) as client:
            if not self._note(client, table.name):
                raise HistoryLostError(f"index {index} is gone", "run `cdc follow`: the table is copied again")
            settings = client.indices.get_settings(index=index)
            count = client.count(index=index)["count"]
        shards = next(iter(settings.values()))["settings"]["index"]["number_of_shards"]
        return read.Source(self._cluster, index, int(shards), count)

    def _index(self, name: TableName) -> str:
        """The name under which the table is searched: an alias."""
        return layout.index_name(self._prefix, name)

    def _own_indexes(self) -> dict[str, dict[str, Any]]:
        return {
            layout.positions_index(self._prefix): layout.POSITION_MAPPING,
            layout.refusals_index(self._prefix): layout.REFUSAL_MAPPING,
        }

    def _own_settings(self) -> dict[str, Any]:
        return {"index": {"number_of_shards": 1, "number_of_replicas": self._settings.replicas}}

    def _note(self, client: OpenSearch, name: TableName) -> IndexNote | None:
        """What the table's index says of itself, None when there is none; raises PreconditionError if not ours."""
        index = self._index(name)
        found = client.indices.get_mapping(index=index, params={"ignore_unavailable": "true"})
        if not found:
            return None
        note = IndexNote.from_meta(next(iter(found.values())).get("mappings", {}).get("_meta"))
        if note is None or note.owner != self._owner or note.table.name != name:
            raise PreconditionError(
                f"index {index} is there already and is not this follower's", "choose another prefix, or delete it"
            )
        return note

    def _notes(self, client: OpenSearch) -> dict[TableName, IndexNote]:
        only = {"filter_path": "*.mappings._meta,*.aliases"}
        found = client.indices.get(index=f"{self._prefix}-*", params=only)
        named = [
            ({index, *each.get("aliases", ())}, IndexNote.from_meta(each.get("mappings", {}).get("_meta")))
            for index, each in found.items()
        ]
        return {
            note.table.name: note
            for names, note in named
            if note and note.owner == self._owner and self._index(note.table.name) in names
        }

    def _target(self, index: str, version: int) -> write.Target:
        s = self._settings
        limits = (s.bulk_documents, s.bulk_bytes, s.bulk_retry_seconds)
        return write.Target(self._cluster, index, version, *limits)

    def _write(self, client: OpenSearch, table: Table, changes: Iterable[FeedRows], version: int) -> None:
        parts = (part for each in changes for part in write.operations(each, table, version))
        refused = write.send(client, parts, self._target(self._index(table.name), version))
        if refused:
            self._refuse(client, table.name, version, refused)

    def _refuse(
        self, client: OpenSearch, table: TableName, version: int, refusals: Sequence[write.RefusedDocument]
    ) -> None:
        """Keep the refusals, each once however often its batch is tried, and stop: the position stays behind them."""
        index = layout.refusals_index(self._prefix)
        for refusal in refusals:
            kept = {"table": str(table), "document": refusal.id, "version": version, "reason": refusal.reason}
            client.index(
                index=index, id=_digest(f"{table} {refusal.id} {version}"), body={**self._owner.as_json(), **kept}
            )
        first = refusals[0]
        raise PreconditionError(
            f"{table}: the index refused {len(refusals)} documents, first {_digest(first.id)[:16]}: {first.reason}",
            f"they are listed in index {index}; nothing after them is applied",
        )

    def _stands(self, client: OpenSearch) -> tuple[Position | None, int]:
        """The position, and the version that it was stored under: above the position's own once one was forgotten."""
        found = client.get(index=layout.positions_index(self._prefix), id=self._position_id(), params={"ignore": 404})
        if not found.get("found"):
            return None, 0
        position = found["_source"]["position"]
        return Position.from_json(position) if position else None, int(found["_version"])

    def _store(self, client: OpenSearch, position: Position | None, version: int) -> None:
        index = layout.positions_index(self._prefix)
        # gte: a batch that comes again stores its position again
        params = {"version": version, "version_type": "external_gte"}
        body = {**self._owner.as_json(), "position": position.as_json() if position else None}
        try:
            client.index(index=index, id=self._position_id(), body=body, params=params)
        except ConflictError as error:
            raise RefusedError(
                f"another writer moved the position in {index}", "stop the other `cdc follow`"
            ) from error

    def _position_id(self) -> str:
        return f"{self._owner.pipeline}/{self._owner.follower}"


def _has(stands: Position | None, position: Position) -> bool:
    if stands and stands.generation > position.generation:
        raise RefusedError(
            f"the index is followed in generation {stands.generation}, this is {position.generation}",
            "stop this `cdc follow`: a later one has taken over",
        )
    return stands is not None and layout.version_at(position) <= layout.version_at(stands)


def _loaded(name: TableName, note: IndexNote | None) -> Table:
    if note is None or note.bookmark is None:
        raise PreconditionError(f"{name} has no copy in the index", "run `cdc bootstrap` first")
    return note.table


def _create_missing(client: OpenSearch, index: str, body: dict[str, Any]) -> None:
    if not client.indices.exists(index=index):
        client.indices.create(index=index, body=body)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
