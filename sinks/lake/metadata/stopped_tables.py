"""Tables that are followed no further, each from a moment on and for a reason, until they are copied again."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from cdc.core.position import format_lsn
from cdc.core.table import TableName
from sinks.lake.layout import Lake
from sinks.lake.metadata.table import OwnTable

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


@dataclass(frozen=True, slots=True)
class Stop:
    """A Delta table of the lake, by its id, that nothing behind this LSN is applied to.

    `copy`: whoever follows the lake copies it again by itself.
    """

    table_id: str
    schema: str
    table: str
    lsn: int
    reason: str
    copy: bool

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)

    @property
    def remedy(self) -> str:
        return "`cdc follow` copies it as it is now" if self.copy else again(self.name)

    def __str__(self) -> str:
        return f"{self.name} is followed no further than {format_lsn(self.lsn)}: {self.reason}"


def again(name: TableName) -> str:
    """The remedy for a table that cannot be followed on from where it is."""
    return f"stop `cdc follow`; `cdc bootstrap --again {name}` copies it as it is now"


class StoppedTables:
    """The lake's list of them. A table that is copied again is another Delta table, and so goes on by itself."""

    def __init__(self, lake: Lake) -> None:
        self._table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA)
        self._read: dict[str, Stop] | None = None
        self._lock = threading.Lock()

    def add(self, stops: Sequence[Stop]) -> None:
        """Write down those that are not yet, or not as ones to be copied."""
        with self._lock:
            self._add(stops)

    def _add(self, stops: Sequence[Stop]) -> None:
        known = self.by_id()
        if fresh := [s for s in stops if s.table_id not in known or (s.copy and not known[s.table_id].copy)]:
            self._table.append([asdict(stop) for stop in fresh])
            self._read = {**known, **{stop.table_id: stop for stop in fresh}}

    def by_id(self) -> Mapping[str, Stop]:
        """All of them, by the id of the Delta table; read once, since nobody adds one but who writes the lake."""
        if self._read is None:
            self._read = {row["table_id"]: Stop(**row) for row in self._table.rows().to_pylist()}
        return self._read
