"""A table's rows on an exported snapshot as a DataFrame, read in ranges by many tasks; nothing is written."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.spark_types import row_type
from cdc.core.table import Table
from snapshots.copy import CopyTask, SnapshotSource, copy_tasks


def source_rows(spark: SparkSession, source: SnapshotSource, table: Table, pages: int) -> DataFrame:
    """The table's rows, typed as `row_type` says: what a copy on this snapshot would hold."""
    tasks = copy_tasks(source, table, pages, spark.sparkContext.defaultParallelism)
    frame = spark.createDataFrame([(n,) for n in range(len(tasks))], "task int").repartitionByRange(len(tasks), "task")
    return frame.mapInArrow(_reader(tasks), row_type(table))


def _reader(tasks: Sequence[CopyTask]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("task").to_pylist():
                yield from tasks[number].batches()

    return read
