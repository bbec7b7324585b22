"""Writes a batch's changes of one table, or its copy, into the table's index, and keeps what the index refuses."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opensearchpy import OpenSearch

from cdc.columns.feed import FeedRows
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import CopyLostError, PreconditionError, TableStoppedError
from cdc.core.plural import format_count
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.sinks.opensearch import layout, write
from cdc.sinks.opensearch.bulk import Operations, operations
from cdc.sinks.opensearch.layout import IndexNote
from cdc.sinks.search.indexes import Indexes, TableIndex


@dataclass(frozen=True, slots=True)
class IndexWriter:
    """Writes to the indexes of one follower; every method raises TableStoppedError for what stops the table."""

    indexes: Indexes

    def load(self, client: OpenSearch, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Fill a new index of the table, which then replaces the old one at once."""
        check_table(table)
        self.indexes.note(client, table.name)
        # a new index, since delete_by_query raises versions, and the copy's rows would lose against those
        old, index = self.indexes.begin_copy(client, table)
        target = self._target(index, table, layout.COPY_VERSION)
        if refused := write.fill(copy, table, target):
            self._refuse(client, table.name, target.version, refused)
        client.indices.refresh(index=index)
        # last: without the note, a half filled index counts as not loaded
        self.indexes.put_note(client, index, IndexNote(self.indexes.owner, table, bookmark))
        self.indexes.put_in_place(client, table.name, index, old)

    def apply(
        self,
        client: OpenSearch,
        at: TableIndex,
        changes: Iterable[FeedRows],
        version: int,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a batch's changes of one table; raises CopyLostError when its index is gone.

        `before` is called when documents are made, and not sent yet.
        """
        table, alias = at.note.table, self.indexes.name_of(at.note.table.name)
        parts = (made_before(before, part) for each in changes for part in operations(each, table, version))
        try:
            refused = write.send(client, parts, self._target(alias, table, version, is_alias=True))
        except CopyLostError as gone:
            raise self.missing_copy(table.name) from gone
        if refused:
            self._refuse(client, table.name, version, refused)

    def missing_copy(self, name: TableName) -> CopyLostError:
        lost = f"{name} has no copy in the index {self.indexes.name_of(name)}"
        return CopyLostError(lost, "`cdc follow` copies it again from the lake by itself")

    def _target(self, index: str, table: Table, version: int, *, is_alias: bool = False) -> write.Target:
        s = self.indexes.settings
        limits = (s.bulk_documents, s.bulk_bytes, s.bulk_retry_seconds)
        return write.Target(self.indexes.cluster, index, table.key, version, *limits, is_alias=is_alias)

    def _refuse(
        self, client: OpenSearch, table: TableName, version: int, refusals: Sequence[write.RefusedDocument]
    ) -> None:
        """Store the refusals, once however often the batch is repeated; raises TableStoppedError."""
        index, owner = layout.refusals_index(self.indexes.prefix), self.indexes.owner.as_json()
        for refusal in refusals:
            # the id is made of the write: a repeated batch replaces its own entries
            entry = {"table": str(table), "document": refusal.id, "version": version, "reason": refusal.reason}
            client.index(index=index, id=_digest(f"{table} {refusal.id} {version}"), body={**owner, **entry})
        first = refusals[0]
        documents = "a document" if len(refusals) == 1 else f"{format_count(len(refusals), 'document')}, first the one"
        raise TableStoppedError(
            f"{table}: the index refused {documents} where {first.where}: {first.reason}",
            f"change the row, or what refuses it, or name the table under leave_out; index {index} has all of them",
        )


def made_before(call: Callable[[], None], part: Operations) -> Operations:
    """The same operations, once the call has returned."""
    call()
    return part


def check_table(table: Table) -> None:
    """Raise TableStoppedError for a table that no index can hold."""
    try:
        layout.check_table(table)
    except PreconditionError as error:
        raise TableStoppedError(error.what, error.remedy) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
