"""Tables that are followed no further, each from a moment on and for a reason, until they are copied again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from cdc.core.position import format_lsn
from cdc.core.table import TableName
from sinks.lake.layout import Lake
from sinks.lake.own_table import OwnTable

FOLDER = "stopped"
SCHEMA = pa.schema(
    [
        pa.field("table_id", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("lsn", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Stop:
    """A Delta table of the lake, by its id, that nothing behind this LSN is applied to."""

    table_id: str
    schema: str
    table: str
    lsn: int
    reason: str

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)

    def __str__(self) -> str:
        return f"{self.name} is followed no further than {format_lsn(self.lsn)}: {self.reason}"


class StoppedTables:
    """The lake's list of them. A table that is copied again is another Delta table, and so goes on by itself."""

    def __init__(self, lake: Lake) -> None:
        self._table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA)
        self._read: dict[str, Stop] | None = None

    def add(self, stops: Sequence[Stop]) -> None:
        """Write down those that are not yet."""
        known = self.by_id()
        if fresh := [stop for stop in stops if stop.table_id not in known]:
            self._table.append([asdict(stop) for stop in fresh])
            self._read = {**known, **{stop.table_id: stop for stop in fresh}}

    def by_id(self) -> Mapping[str, Stop]:
        """All of them, by the id of the Delta table; read once, since nobody adds one but who writes the lake."""
        if self._read is None:
            self._read = {row["table_id"]: Stop(**row) for row in self._table.rows().to_pylist()}
        return self._read
