"""An error raised on a worker reaches the driver as the same line of the same type."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.core.errors import HistoryLostError, UnreachableError
from cdc.run.spark.errors import translate_errors


def fail_unreachable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from ()
    raise UnreachableError("the store does not answer", "is it running?")


def lose_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from ()
    raise HistoryLostError("it is gone")


@pytest.mark.parametrize(
    ("task", "kind", "line"),
    [
        (fail_unreachable, UnreachableError, "the store does not answer → is it running?"),
        (lose_table, HistoryLostError, "it is gone"),
    ],
)
def test_errors_of_tasks_reach_the_driver_unchanged(
    spark: SparkSession, task: object, kind: type[Exception], line: str
) -> None:
    frame = spark.range(1).mapInArrow(task, "id long")  # type: ignore[arg-type]
    with pytest.raises(kind) as raised, translate_errors("the copy"):
        frame.collect()
    assert str(raised.value) == line
    assert isinstance(raised.value.__cause__, PySparkException)
