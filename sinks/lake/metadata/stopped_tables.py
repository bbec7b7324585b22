"""Stopped tables: nothing more is applied to them until they are copied again."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName
from cdc.core.table_state import Stopped
from sinks.lake.layout import Lake
from sinks.lake.metadata.table import MetadataTable

FOLDER = "stopped"
SCHEMA = pa.schema(
    [
        pa.field("table_id", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("lsn", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("copy", pa.bool_()),
    ]
)
"""One row per stop; the newest row of a table wins.

    column    type    key  meaning
    table_id  string  yes  id of the Delta table; a new copy may have another one
    schema    string
    table     string
    lsn       int64        changes after this LSN are not applied
    reason    string
    copy      bool         `cdc follow` copies the table again by itself
"""


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A Delta table, by its id, to which nothing after this LSN is applied.

    `copy`: `cdc follow` copies it again by itself.
    """

    table_id: str
    schema: str
    table: str
    lsn: int
    reason: str
    copy: bool

    @property
    def name(self) -> TableName:
        """The source table's name."""
        return TableName(self.schema, self.table)

    def as_state(self) -> Stopped:
        """The table's state."""
        return Stopped(Lsn(self.lsn), self.reason, self.copy)

    @property
    def remedy(self) -> str:
        """The remedy for an error line."""
        return "`cdc follow` copies it as it is now" if self.copy else recopy_remedy(self.name)

    def __str__(self) -> str:
        return f"{self.name} is followed no further than {format_lsn(self.lsn)}: {self.reason}"


def recopy_remedy(name: TableName) -> str:
    """The remedy for a table that only a new copy can bring back."""
    return f"stop `cdc follow`; `cdc bootstrap --again {name}` copies it as it is now"


class StoppedTables:
    """The lake's list of stopped tables. A new copy is another Delta table, and so not stopped."""

    def __init__(self, lake: Lake) -> None:
        self._table = MetadataTable(lake.metadata_storage(FOLDER), FOLDER, SCHEMA)
        self._cached: dict[str, StoppedTable] | None = None
        self._lock = threading.Lock()

    def add(self, stops: Sequence[StoppedTable]) -> None:
        """Store new stops, and those that now ask for a copy."""
        with self._lock:
            self._add(stops)

    def _add(self, stops: Sequence[StoppedTable]) -> None:
        known = self.by_id()
        if fresh := [s for s in stops if s.table_id not in known or (s.copy and not known[s.table_id].copy)]:
            self._table.append([asdict(stop) for stop in fresh])
            self._cached = {**known, **{stop.table_id: stop for stop in fresh}}

    def by_id(self) -> Mapping[str, StoppedTable]:
        """All stops by the Delta table's id; read once, as only the lake's writer adds stops."""
        if self._cached is None:
            self._cached = {row["table_id"]: StoppedTable(**row) for row in self._table.rows().to_pylist()}
        return self._cached
