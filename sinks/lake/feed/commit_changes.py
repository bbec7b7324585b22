"""The changes of one commit of a table, from its change data or its files.

Our commits name their change data: the data file of the new rows, and a small file of deleted keys (Delta protocol,
"Add CDC File"). For other commits the protocol rules apply: their change data, or else the rows of added and removed
files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.feed import FeedRows
from cdc.columns.rows.row_fingerprints import identifying_columns
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta.actions import Action, Add, Cdc, Remove, of_type
from cdc.sinks.lake.delta.damage import read_parts, reading
from cdc.sinks.lake.delta.data_files import CHANGE_TYPE
from cdc.sinks.lake.delta.scan import PART_ROWS, Share, live_rows
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.feed.change_cache import RecentChanges
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.sinks.lake.feed.named_keys import NamedKeys
from cdc.sinks.lake.storage.base import Storage

UPSERTS: Final = pa.array(["insert", "update_postimage"])
DELETES: Final = pa.array(["delete"])


@dataclass(frozen=True, slots=True)
class LazyParts:
    """Changes that each iteration reads again."""

    read: Callable[[], Iterator[FeedRows]]

    def __iter__(self) -> Iterator[FeedRows]:
        return self.read()


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit's changes of one table, cached or in files."""

    table: Table
    storage: Storage
    actions: Sequence[Action]
    version: int
    cached: RecentChanges | None

    @property
    def change_bytes(self) -> int:
        """Size of the changes' files."""
        if self.cached is not None:
            return self.cached.file_bytes
        if change_data := [*of_type(self.actions, Cdc)]:
            return sum(cdc.size for cdc in change_data)
        return sum(file.size or 0 for file in self._row_changes())

    def parts(self) -> Iterator[FeedRows]:
        """Yield the changes in parts that share no key."""
        if self.cached is not None:
            yield self._conform(self.cached.rows)
        # with one `cdc` action, the files' rows are no changes beyond it ("Add CDC File")
        elif change_data := [*of_type(self.actions, Cdc)]:
            for cdc in change_data:
                for rows in self._read_changes(cdc.path):
                    yield self._conform(FeedRows(_select(rows, UPSERTS), _select(rows, DELETES)))
        else:
            yield from fold_versions([self], self.table)

    def changed_keys(self) -> Iterator[pa.Table]:
        """Yield what identifies the changed rows, in parts; of some rows perhaps twice."""
        yield from self._read_rows(pa.schema([self._schema.field(name) for name in identifying_columns(self.table)]))
        yield from self.gone()

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows that are new or others since, in parts."""
        yield from self._read_rows(self._schema)

    def gone(self) -> Iterator[pa.Table]:
        """Yield the keys of rows that were deleted, in parts; some perhaps are there again, in `rows`."""
        schema = key_schema(self.table)
        if self.cached is not None:
            yield conform(self.cached.rows.gone, schema)
        elif any(of_type(self.actions, Cdc)):
            yield from self._select_changes(DELETES, schema)
        else:
            yield from self._read_live(Remove, schema)

    def _read_rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        if self.cached is not None:
            yield conform(self.cached.rows.rows, schema)
        elif any(of_type(self.actions, Cdc)):
            yield from self._select_changes(UPSERTS, schema)
        else:
            yield from self._read_live(Add, schema)

    @property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self.table)

    def _conform(self, changes: FeedRows) -> FeedRows:
        # a version before a new column lacks it
        return FeedRows(conform(changes.rows, self._schema), conform(changes.gone, key_schema(self.table)))

    def _row_changes(self) -> list[Add | Remove]:
        """The added and removed files whose rows changed; compaction changes none."""
        return [action for action in self.actions if isinstance(action, Add | Remove) and action.data_change]

    def _select_changes(self, kinds: pa.Array, schema: pa.Schema) -> Iterator[pa.Table]:
        for cdc in of_type(self.actions, Cdc):
            for rows in self._read_changes(cdc.path, [*schema.names, CHANGE_TYPE]):
                yield conform(_select(rows, kinds), schema)

    def _read_changes(self, path: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        with reading(self.table.name, path):
            batches = pq.ParquetFile(self.storage.open(path)).iter_batches(PART_ROWS, columns=columns)
        for batch in read_parts(batches, self.table.name, path):
            yield pa.Table.from_batches([batch])

    def _read_live(self, kind: type[Add] | type[Remove], schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield columns of the live rows of all added, or all removed, files."""
        for file in (DataFile.of(action) for action in self._row_changes() if isinstance(action, kind)):
            parts = live_rows(self.storage, Share(file), self.table, schema.names)
            yield from read_parts(parts, self.table.name, file.path)


def _select(rows: pa.Table, kinds: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows[CHANGE_TYPE], kinds))


def fold_versions(versions: Sequence[CommitChanges], table: Table) -> Iterator[FeedRows]:
    """Yield the last state of every key that successive versions change, in parts that share no key.

    The newest version is read first, and of each only its keys' bits are kept. Within one, a row wins over a deletion:
    a key that did both exists.
    """
    named, no_rows, no_keys = NamedKeys(table), arrow_schema(table).empty_table(), key_schema(table).empty_table()
    for version in reversed(versions):
        parts = (FeedRows(named.take_new(rows), no_keys) for rows in version.rows())
        yield from filter(len, parts)
        # nothing that comes behind the oldest version's deletions has to know of them
        choose = named.leave_out if version is versions[0] else named.take_new
        yield from filter(len, (FeedRows(no_rows, choose(keys)) for keys in version.gone()))


def read_whole(version: CommitChanges, table: Table) -> FeedRows:
    """Read all parts of a commit's changes as one."""
    parts = list(version.parts())
    return FeedRows(
        pa.concat_tables([arrow_schema(table).empty_table(), *(part.rows for part in parts)]),
        pa.concat_tables([key_schema(table).empty_table(), *(part.gone for part in parts)]),
    )
