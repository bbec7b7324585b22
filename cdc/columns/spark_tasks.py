"""Numbered pieces of work, distributed over Spark's tasks."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

NumbersTask = Callable[[Iterable[int]], Iterable[pa.RecordBatch]]
"""The work of a task for its numbers; it must be picklable."""


def require_spark(spark: SparkSession | None) -> SparkSession:
    """The Spark session; raises AssertionError for a follower that was opened without one, for its position only."""
    if spark is None:
        raise AssertionError("this follower was opened without Spark")
    return spark


def run_in_tasks(spark: SparkSession, count: int, work: NumbersTask, schema: str | StructType) -> DataFrame:
    """Run `work` for the numbers below `count`, one task each; returns a lazy frame of `schema`."""
    # a range with one number in each partition: repartitioned by hash, some would have two and others none
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(partial(_run_numbers, work=work), schema)


def _run_numbers(batches: Iterable[pa.RecordBatch], work: NumbersTask) -> Iterator[pa.RecordBatch]:
    yield from work(number for batch in batches for number in batch.column(0).to_pylist())
