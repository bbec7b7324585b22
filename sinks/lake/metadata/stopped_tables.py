"""Stopped tables: nothing more is applied to them until they are copied again."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName
from cdc.core.table_state import Stopped
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.table import MetadataTable

FOLDER = "stopped"
SCHEMA = pa.schema(
    {
        "table_id": pa.string(),  # id of the Delta table; a new copy may have another one
        "schema": pa.string(),
        "table": pa.string(),
        "lsn": pa.int64(),  # changes after this LSN are not applied
        "reason": pa.string(),
        "copy": pa.bool_(),  # `cdc follow` copies the table again by itself
    }
)
"""One row per stop; its key: table_id. The newest row of a table wins."""


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A Delta table that gets no more changes: a row of SCHEMA."""

    table_id: str
    schema: str
    table: str
    lsn: int
    reason: str
    copy: bool

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)

    def as_state(self) -> Stopped:
        return Stopped(Lsn(self.lsn), self.reason, self.copy)

    @property
    def remedy(self) -> str:
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
        """Store new stops, and those that now ask for a copy, or for another reason."""
        with self._lock:
            known = self.by_id()
            if fresh := [stop for stop in stops if _says_more(stop, known.get(stop.table_id))]:
                self._table.append([asdict(stop) for stop in fresh])
                # another dict: threads may read the old one
                self._cached = {**known, **{stop.table_id: stop for stop in fresh}}

    def invalidate(self) -> None:
        """Read the stops anew on next use: another process may be the lake's writer."""
        self._cached = None

    def by_id(self) -> Mapping[str, StoppedTable]:
        """All stops by the Delta table's id; read once, as only the lake's writer adds stops."""
        if self._cached is None:
            self._cached = {row["table_id"]: StoppedTable(**row) for row in self._table.rows().to_pylist()}
        return self._cached


def _says_more(stop: StoppedTable, known: StoppedTable | None) -> bool:
    return known is None or (stop.copy and (stop.copy, stop.reason) != (known.copy, known.reason))
