"""A table's rows at one moment, for whoever takes them in or compares them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.names import quoted
from cdc.core.table import Table

RowsTask = Callable[[Iterator[pa.Table]], Iterable[pa.RecordBatch]]
"""What a task of Spark makes of its rows of a copy, of which some are in memory at a time."""


class TableCopy(Protocol):
    """A table's rows at one moment (its Arrow schema), in parts that Spark's tasks read each on their own."""

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        """What `task` makes of every part, as a frame of `schema` that is made when it is read.

        A task may be run again, by Spark, with the same rows.
        """


@dataclass(frozen=True, slots=True)
class FrameCopy:
    """A `Copy` of what Spark reads: a frame of the table's columns."""

    frame: DataFrame
    table: Table

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        # mapInArrow asks for the columns by their names, and takes a dot in one for a field of another
        own = self.frame.select(*map(quoted, self.table.column_names))
        numbered = own.toDF(*(f"c{number}" for number in range(len(self.table.columns))))
        return numbered.mapInArrow(partial(_rename_columns, names=self.table.column_names, task=task), schema)


def _rename_columns(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], task: RowsTask
) -> Iterator[pa.RecordBatch]:
    yield from task(pa.Table.from_batches([batch]).rename_columns([*names]) for batch in batches)
