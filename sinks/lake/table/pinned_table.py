"""A table at one version, which nothing moves on: what a thread of its own reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.storage.base import Storage


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table as it is at a snapshot. Safe in any thread, also while somebody compacts the table."""

    table: Table
    snapshot: Snapshot
    _storage: Storage

    @property
    def row_count(self) -> int:
        return self.snapshot.live_rows

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones, too."""
        return sum(file.rows for file in self.snapshot.files.values())

    @property
    def file_bytes(self) -> int:
        return sum(file.size for file in self.snapshot.files.values())

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the Delta table."""
        return self.snapshot.configuration

    def read_all(self, names: Sequence[str]) -> pa.Table:
        """The columns `names` of all rows."""
        whole = arrow_schema(self.table)
        schema = pa.schema([whole.field(name) for name in names])
        # compaction deletes no file that this snapshot has
        parts = [
            part
            for file in self.snapshot.files.values()
            for part in live_rows(self._storage, Share(file), self.table, schema.names)
        ]
        return pa.concat_tables([schema.empty_table(), *parts])
