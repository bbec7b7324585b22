"""What an index refuses: listed by row, and told; where a shape is given, the rest of the table goes on."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import key_documents, portions
from cdc.core.errors import PreconditionError, TableStoppedError
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_count
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.write import RefusedDocument
from cdc.sinks.owner import Owner

MOST_KEPT: Final = 1000
"""The most refused documents of a table that are kept; of more, the mapping is wrong, and the table stops."""


@dataclass(slots=True)
class KeptRefusals:
    """The refusals of one follower; `known`: the ids of kept ones by table, as far as they were read."""

    prefix: str
    owner: Owner
    known: dict[TableName, set[str]] = field(default_factory=dict)
    remarks: list[PreconditionError] = field(default_factory=list)

    @property
    def index(self) -> str:
        return layout.refusals_index(self.prefix)

    def store(
        self, client: OpenSearch, table: TableName, version: int, refusals: Sequence[RefusedDocument], *, is_kept: bool
    ) -> None:
        """Store refusals, of a kept one the last of its row: a repeated batch replaces its own entries."""
        entries = {self._id(table, version, each, is_kept=is_kept): each for each in refusals}
        for id, each in entries.items():
            told = {"table": str(table), "document": each.id, "version": version, "reason": each.reason}
            # by which an erasure finds it: an id may be made of other columns than the key's
            told["row"] = name_row(self.owner, table, each.key)
            client.index(index=self.index, id=id, body={**self.owner.as_json(), **told, "kept": is_kept})
        if is_kept:
            client.indices.refresh(index=self.index)
            new = entries.keys() - self._read(client, table)
            self.known[table] |= entries.keys()
            self.remarks += [self._remark(table, [entries[id] for id in sorted(new)])] if new else []

    def to_stop(self, table: TableName, refusals: Sequence[RefusedDocument]) -> TableStoppedError:
        remedy = "change the row, or what refuses it, or name the table under leave_out"
        return TableStoppedError(_describe(table, refusals), f"{remedy}; index {self.index} has all of them")

    def forget(self, client: OpenSearch, table: TableName) -> None:
        """Forget what is kept of a table: all of its rows come again."""
        params = {"conflicts": "proceed", "refresh": "true"}
        client.delete_by_query(index=self.index, body={"query": self._kept(table)}, params=params)
        self.known[table] = set()

    def forget_written(
        self, client: OpenSearch, table: Table, changes: Iterable[FeedRows], refused: Sequence[RefusedDocument]
    ) -> None:
        """Forget the kept refusals of these rows, which were written or deleted since, but for those refused again."""
        if not self._read(client, table.name):
            return
        again = {name_row(self.owner, table.name, each.key) for each in refused}
        gone = (self.known[table.name] & {*_ids_of(self.owner, table, changes)}) - again
        for id in gone:
            client.delete(index=self.index, id=id, params={"ignore": 404})
        if gone:
            client.indices.refresh(index=self.index)
            self.known[table.name] -= gone

    def count(self, client: OpenSearch, table: TableName) -> int:
        """The rows of a table that its index has refused, and lacks."""
        return len(self._read(client, table))

    def _read(self, client: OpenSearch, table: TableName) -> set[str]:
        if table not in self.known:
            found = client.search(
                index=self.index,
                body={"query": self._kept(table), "_source": False, "size": 2 * MOST_KEPT},
                params={"ignore_unavailable": "true"},
            )
            self.known[table] = {hit["_id"] for hit in found["hits"]["hits"]}
        return self.known[table]

    def _kept(self, table: TableName) -> dict[str, Any]:
        named = {**self.owner.as_json(), "table": str(table), "kept": True}
        return {"bool": {"filter": [{"term": {name: value}} for name, value in named.items()]}}

    def _id(self, table: TableName, version: int, refusal: RefusedDocument, *, is_kept: bool) -> str:
        if is_kept:
            return name_row(self.owner, table, refusal.key)
        return _digest(f"{table} {refusal.id} {version}")

    def _remark(self, table: TableName, refusals: Sequence[RefusedDocument]) -> PreconditionError:
        remedy = f"change the row, or indexes.{table} of this follower; index {self.index} has all of them"
        return PreconditionError(f"{_describe(table, refusals)}; the table goes on without", remedy)


def _describe(table: TableName, refusals: Sequence[RefusedDocument]) -> str:
    first = refusals[0]
    documents = "a document" if len(refusals) == 1 else f"{format_count(len(refusals), 'document')}, first the one"
    return f"{table}: the index refused {documents} where {first.where}: {first.reason}"


def _ids_of(owner: Owner, table: Table, changes: Iterable[FeedRows]) -> Iterator[str]:
    for each in changes:
        for rows in (each.rows, each.gone):
            for portion in portions(rows):
                yield from (name_row(owner, table.name, [*json.loads(key).values()]) for key in _keys(portion, table))


def _keys(rows: pa.Table, table: Table) -> list[str]:
    return list(key_documents(rows, table).to_pylist())


def name_row(owner: Owner, table: TableName, key: Sequence[Any]) -> str:
    """The name of a row, whatever its document's id: a digest of its key's values, as its JSON has them."""
    return _digest(json.dumps([owner.pipeline, owner.follower, str(table), *key]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
