"""Which tables belong to a lake: written down before their copy, read by whoever follows."""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc

from cdc.core.table import TableName
from sinks.lake.layout import Lake
from sinks.lake.metadata.table import OwnTable

FOLDER = "tables"
SCHEMA = pa.schema([pa.field("schema", pa.string()), pa.field("table", pa.string())])


class TableList:
    """The lake's list of its tables."""

    def __init__(self, lake: Lake, look_seconds: float = 0.0) -> None:
        self._table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA, look_seconds)
        self._read: tuple[int, list[TableName]] | None = None

    def add(self, names: Sequence[TableName]) -> None:
        """Add those that are not listed yet."""
        listed = self.names()
        rows = [{"schema": name.schema, "table": name.table} for name in names if name not in listed]
        if rows:
            self._table.append(rows)

    def remove(self, names: Collection[TableName]) -> None:
        """List these no more."""
        gone = [(pc.field("schema") == name.schema) & (pc.field("table") == name.table) for name in names]
        self._table.put_together(~reduce(or_, gone))

    def look(self) -> None:
        """Let the next question look for what others have listed."""
        self._table.look()

    def names(self) -> list[TableName]:
        """The listed tables, in the order of their names."""
        state = self._table.state()
        if state is None:
            return []
        if self._read is None or self._read[0] != state.version:
            rows = self._table.rows().to_pylist()
            self._read = (state.version, sorted({TableName(row["schema"], row["table"]) for row in rows}))
        return self._read[1]
