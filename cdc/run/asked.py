"""What a follower behind the lake can say of itself without Spark."""

from typing import Protocol

from cdc.core.position import Position
from cdc.core.table import TableName


class Asked(Protocol):
    """A follower behind the lake, as far as its standing can be asked for."""

    def position(self) -> Position | None: ...

    def count(self, table: TableName) -> int | None:
        """Its rows of a table, None where counting would mean reading everything."""
