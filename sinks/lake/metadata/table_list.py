"""The list of a lake's tables. A table is listed before its copy; followers read the list."""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc

from cdc.core.table import TableName
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.table import MetadataTable

FOLDER = "tables"
SCHEMA = pa.schema({"schema": pa.string(), "table": pa.string()})
"""One row per table; its key: both columns."""


class TableList:
    """The lake's table list."""

    def __init__(self, lake: Lake, look_seconds: float = 0.0) -> None:
        self._table = MetadataTable(lake.metadata_storage(FOLDER), FOLDER, SCHEMA, look_seconds)
        self._cached: tuple[int, list[TableName]] | None = None

    def add(self, names: Sequence[TableName]) -> None:
        """List new tables; listed ones stay as they are."""
        listed = self.names()
        rows = [{"schema": name.schema, "table": name.table} for name in names if name not in listed]
        if rows:
            self._table.append(rows)

    def remove(self, names: Collection[TableName]) -> None:
        gone = [(pc.field("schema") == name.schema) & (pc.field("table") == name.table) for name in names]
        self._table.compact(~reduce(or_, gone))

    def invalidate(self) -> None:
        self._table.invalidate()

    def names(self) -> list[TableName]:
        """The listed tables, sorted by name."""
        snapshot = self._table.snapshot()
        if snapshot is None:
            return []
        # read again only after a commit
        if self._cached is None or self._cached[0] != snapshot.version:
            rows = self._table.rows().to_pylist()
            self._cached = (snapshot.version, sorted({TableName(row["schema"], row["table"]) for row in rows}))
        return self._cached[1]
