"""A copy of a table: its rows at one moment, to be loaded or compared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.names import quoted
from cdc.core.table import Table

RowsTask = Callable[[Iterator[pa.Table]], Iterable[pa.RecordBatch]]
"""A Spark task over rows of a copy; it gets them in pieces, so few are in memory at a time."""


class TableCopy(Protocol):
    """A table's rows at one moment (in its Arrow schema), in parts; each Spark task reads its own."""

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        """Run `task` on every part; returns a lazy frame of `schema`.

        Spark may run a task again with the same rows.
        """


@runtime_checkable
class ReadableCopy(TableCopy, Protocol):
    """A copy that this process can read, too: for a small one that is quicker than the start of a Spark job."""

    @property
    def row_count(self) -> int: ...

    @property
    def file_bytes(self) -> int:
        """The size of its files, as compressed as they are."""

    def read(self) -> Iterator[pa.Table]:
        """Read the rows in parts."""


@dataclass(frozen=True, slots=True)
class FrameCopy:
    """A `TableCopy` of a Spark frame with the table's columns."""

    frame: DataFrame
    table: Table

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        # numbered names: mapInArrow looks columns up by name, and reads a dot as a field of a struct
        own = self.frame.select(*map(quoted, self.table.column_names))
        numbered = own.toDF(*(f"c{number}" for number in range(len(self.table.columns))))
        return numbered.mapInArrow(partial(_rename_columns, names=self.table.column_names, task=task), schema)


def _rename_columns(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], task: RowsTask
) -> Iterator[pa.RecordBatch]:
    yield from task(pa.Table.from_batches([batch]).rename_columns([*names]) for batch in batches)
