"""Writes a batch's changes of one table, or its copy, into the table's index."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from opensearchpy import OpenSearch
from opensearchpy.exceptions import NotFoundError

from cdc.columns.feed import FeedRows
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.held import digest_copy
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import CopyLostError, PreconditionError, TableStoppedError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.sinks.opensearch import layout, write
from cdc.sinks.opensearch.bulk import Addresses, Operations, deletes, operations, put_rows
from cdc.sinks.opensearch.layout import IndexNote
from cdc.sinks.search.indexes import Indexes, TableIndex
from cdc.sinks.search.moves import find_moved
from cdc.sinks.search.refusals import MOST_KEPT, KeptRefusals
from cdc.sinks.search.table_shapes import check_table


@dataclass(frozen=True, slots=True)
class IndexWriter:
    """Writes to the indexes of one follower; every method raises TableStoppedError for what stops the table.

    `digest`: of all documents of an index, by its name.
    """

    indexes: Indexes
    refusals: KeptRefusals
    digest: Callable[[OpenSearch, str], Digest]

    def load(self, client: OpenSearch, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Fill a new index of the table, which then replaces the old one at once."""
        self.check(table)
        before, shape = self.indexes.note(client, table.name), self.indexes.shape_of(table.name)
        # a new index, since delete_by_query raises versions, and the copy's rows would lose against those
        old, index = self.indexes.begin_copy(client, table)
        target = self._target(index, table, layout.COPY_VERSION)
        refused = write.fill(copy, table, target)
        reach("search.copy.filled")
        client.indices.refresh(index=index, params={"ignore_unavailable": "true"})
        self.indexes.check_filled(client, table.name, index)
        if not shape.is_default or (before and before.shape):
            self.refusals.forget(client, table.name)
        if refused:
            self._refuse(client, table, target.version, refused, is_new=True)
        if before and before.shape != shape.name:
            self._verify(client, index, table, copy, len(refused))
        # last: without the note, a half filled index counts as not loaded
        note = IndexNote(self.indexes.owner, table, bookmark, shape.name)
        self.indexes.put_note(client, index, note)
        reach("search.copy.noted")
        self.indexes.put_in_place(client, table.name, index, old)
        reach("search.copy.placed")

    def _verify(self, client: OpenSearch, index: str, table: Table, copy: TableCopy, refused: int) -> None:
        """Compare a filled index of another shape with the copy, before anybody searches it."""
        ours = digest_copy(copy, table, self.indexes.shape_of(table.name).held(table))
        theirs = self.digest(client, index)
        if (ours.rows - refused != theirs.rows) or (not refused and ours != theirs):
            raise TableStoppedError(
                f"{table.name}: the new index has other documents than the lake has rows:"
                f" {theirs.rows:,} of {ours.rows - refused:,}",
                "the old one stays; `cdc follow` tries again",
            )

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
        table, shape = at.note.table, self.indexes.shape_of(at.note.table.name)
        target = self._target(self.indexes.name_of(table.name), table, version, is_alias=True)
        try:
            if shape.can_move(table):
                # of a batch that was cut off, some is written already
                client.indices.refresh(index=at.index)
                refused = self._move(client, at.index, target, table, changes, before)
            else:
                parts = (p for each in changes for p in operations(each, table, version, shape))
                refused = write.send(client, (made_before(before, part) for part in parts), target)
            if not shape.is_default:
                self.refusals.forget_written(client, table, changes, refused)
        except (CopyLostError, NotFoundError) as gone:
            raise self.missing_copy(table.name) from gone
        if refused:
            self._refuse(client, table, version, refused)

    def _move(
        self,
        client: OpenSearch,
        index: str,
        target: write.Target,
        table: Table,
        changes: Iterable[FeedRows],
        before: Callable[[], None],
    ) -> list[write.RefusedDocument]:
        """Delete the documents that are elsewhere than they are to be, and of deleted rows; then put the others."""
        shape, refused = self.indexes.shape_of(table.name), list[write.RefusedDocument]()
        for each in changes:
            moved = find_moved(client, index, shape, table, each)
            before()
            # first, and waited for: in one shard, both may be the same document
            refused += write.send(client, [deletes(moved, target.version)], target)
            refused += write.send(client, put_rows(each.rows, table, target.version, shape), target)
        return refused

    def missing_copy(self, name: TableName) -> CopyLostError:
        lost = f"{name} has no copy in the index {self.indexes.name_of(name)}"
        return CopyLostError(lost, "`cdc follow` copies it again from the lake by itself")

    def check(self, table: Table) -> None:
        """Raise TableStoppedError for a table that no index can hold, or not in its shape."""
        try:
            check_table(table, self.indexes.settings)
        except PreconditionError as error:
            raise TableStoppedError(error.what, error.remedy) from error

    def _target(self, index: str, table: Table, version: int, *, is_alias: bool = False) -> write.Target:
        s, shape = self.indexes.settings, self.indexes.shape_of(table.name)
        limits = (s.bulk_documents, s.bulk_bytes, s.bulk_retry_seconds)
        # of one that keeps them, all but too many
        most = write.MOST_REFUSALS if shape.is_default else MOST_KEPT + 1
        key = tuple(shape.key_fields(table))
        target = write.Target(self.indexes.cluster, index, key, version, *limits, is_alias=is_alias, form=shape)
        return replace(target, most_refusals=most)

    def _refuse(
        self,
        client: OpenSearch,
        table: Table,
        version: int,
        refusals: Sequence[write.RefusedDocument],
        *,
        is_new: bool = False,
    ) -> None:
        """Store the refusals, once however often the batch is repeated. `is_new`: of an index that nobody searches yet.

        Where the settings say how fields are mapped, what they do not take keeps to its document; else, or if these are
        too many, raises TableStoppedError.
        """
        known = 0 if self.indexes.shape_of(table.name).is_default else self.refusals.count(client, table.name)
        keeps = not self.indexes.shape_of(table.name).is_default and len(refusals) + known <= MOST_KEPT
        if keeps and not is_new:
            # of another state of the row: searches find none rather than an old one
            at = Addresses(*(pa.array([getattr(each, name) for each in refusals]) for name in ("id", "routing")))
            target = self._target(self.indexes.name_of(table.name), table, version, is_alias=True)
            write.send(client, [deletes(at, version)], target)
        self.refusals.store(client, table.name, version, refusals, is_kept=keeps)
        if not keeps:
            raise self.refusals.to_stop(table.name, refusals)


def made_before(call: Callable[[], None], part: Operations) -> Operations:
    """The same operations, once the call has returned."""
    call()
    return part
