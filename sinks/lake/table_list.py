"""Which tables belong to a lake: written down before their copy, read by whoever follows."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import write_deltalake

from cdc.core.table import TableName
from sinks.lake.layout import Lake, open_table

FOLDER = "tables"
SCHEMA = pa.schema([pa.field("schema", pa.string(), nullable=False), pa.field("table", pa.string(), nullable=False)])


class TableList:
    """The lake's list of its tables."""

    def __init__(self, lake: Lake) -> None:
        self._folder = lake.own_folder(FOLDER)

    def add(self, names: Sequence[TableName]) -> None:
        """Add those that are not listed yet."""
        listed = self.names()
        rows = [{"schema": name.schema, "table": name.table} for name in names if name not in listed]
        if rows:
            write_deltalake(self._folder, pa.Table.from_pylist(rows, SCHEMA), mode="append")

    def names(self) -> list[TableName]:
        """The listed tables, in the order of their names."""
        delta = open_table(self._folder)
        rows = delta.to_pyarrow_table().to_pylist() if delta else []
        return sorted({TableName(row["schema"], row["table"]) for row in rows})
