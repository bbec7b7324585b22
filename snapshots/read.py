"""Reads a table on an exported snapshot, in ranges by parallel tasks, for verification."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.spark_tasks import run_in_tasks
from cdc.columns.table_copy import RowsTask
from cdc.columns.types.spark_types import row_type
from cdc.core.table import Table
from cdc.snapshots.copy import CopyTask, SnapshotSource, copy_tasks
from cdc.snapshots.ranges import Pages


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The table's rows on this snapshot, as a `TableCopy`."""

    spark: SparkSession
    table: Table
    ranges: Sequence[CopyTask]

    @classmethod
    def at(cls, spark: SparkSession, source: SnapshotSource, table: Table, pages: Pages) -> Self:
        return cls(spark, table, copy_tasks(source, table, pages, spark.sparkContext.defaultParallelism))

    def frame(self) -> DataFrame:
        """The rows, with the types of `row_type`."""
        return run_in_tasks(self.spark, len(self.ranges), partial(_batches, ranges=self.ranges), row_type(self.table))

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        return run_in_tasks(self.spark, len(self.ranges), partial(_map_ranges, ranges=self.ranges, task=task), schema)


def read_in_process(source: SnapshotSource, table: Table, pages: Pages) -> Iterator[pa.Table]:
    """Read the same rows in this process."""
    for task in copy_tasks(source, table, pages, 1):
        for batch in task.batches():
            yield pa.Table.from_batches([batch])


def _batches(numbers: Iterable[int], ranges: Sequence[CopyTask]) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield from ranges[number].batches()


def _map_ranges(numbers: Iterable[int], ranges: Sequence[CopyTask], task: RowsTask) -> Iterable[pa.RecordBatch]:
    return task(pa.Table.from_batches([batch]) for batch in _batches(numbers, ranges))
