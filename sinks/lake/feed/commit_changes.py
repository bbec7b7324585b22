"""The changes of one commit of a table, from its change data or its files.

Our commits name their change data: the data file of the new rows, and a small file of deleted keys (Delta protocol,
"Add CDC File"). For other commits the protocol rules apply: their change data, or else the rows of added and removed
files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.feed import FeedRows, merge_versions
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta.actions import Action, Add, Cdc, Remove, of_type
from cdc.sinks.lake.delta.damage import read_parts, reading
from cdc.sinks.lake.delta.data_files import CHANGE_TYPE
from cdc.sinks.lake.delta.scan import PART_ROWS, Share, live_rows
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.feed.change_cache import RecentChanges
from cdc.sinks.lake.storage.base import Storage


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
        """Yield the changes in parts."""
        if self.cached is not None:
            # a version before a new column lacks it
            yield FeedRows(self._shape(self.cached.rows.rows), self.cached.rows.gone)
        # with one `cdc` action, the files' rows are no changes beyond it ("Add CDC File")
        elif change_data := [*of_type(self.actions, Cdc)]:
            for cdc in change_data:
                yield from self._read_changes(cdc.path)
        else:
            yield from self._diff_files()

    def _row_changes(self) -> list[Add | Remove]:
        """The added and removed files whose rows changed; compaction changes none."""
        return [action for action in self.actions if isinstance(action, Add | Remove) and action.data_change]

    def _read_changes(self, path: str) -> Iterator[FeedRows]:
        with reading(self.table.name, path):
            batches = pq.ParquetFile(self.storage.open(path)).iter_batches(PART_ROWS)
        for batch in read_parts(batches, self.table, path):
            rows = pa.Table.from_batches([batch])
            kind = rows[CHANGE_TYPE]
            upserts = rows.filter(pc.is_in(kind, pa.array(["insert", "update_postimage"])))
            yield FeedRows(self._shape(upserts), rows.filter(pc.equal(kind, "delete")).select(self.table.key))

    def _diff_files(self) -> Iterator[FeedRows]:
        """Deletes, then inserts; a key that did both exists, so its row comes last."""
        keys, rows = self._read_live(Remove, self.table.key), self._read_live(Add, self.table.column_names)
        before, after = FeedRows(rows.slice(0, 0), keys), FeedRows(rows, keys.slice(0, 0))
        yield merge_versions([before, after], self.table)

    def _read_live(self, kind: type[Add] | type[Remove], columns: Sequence[str]) -> pa.Table:
        """Read columns of the live rows of all added, or all removed, files."""
        files = [DataFile.of(action) for action in self._row_changes() if isinstance(action, kind)]
        parts = (
            read_parts(live_rows(self.storage, Share(file), self.table, columns), self.table, file.path)
            for file in files
        )
        empty = arrow_schema(self.table).empty_table().select(columns)
        return pa.concat_tables([empty, *chain.from_iterable(parts)])

    def _shape(self, rows: pa.Table) -> pa.Table:
        return conform(rows, arrow_schema(self.table))


def read_whole(version: CommitChanges, table: Table) -> FeedRows:
    """Read all parts of a commit's changes as one."""
    schema = arrow_schema(table)
    parts = list(version.parts())
    keys = pa.schema([schema.field(name) for name in table.key])
    return FeedRows(
        pa.concat_tables([schema.empty_table(), *(part.rows for part in parts)]),
        pa.concat_tables([keys.empty_table(), *(part.gone.cast(keys) for part in parts)]),
    )
