"""An error raised on a worker reaches the driver as the same line of the same type."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.run.spark.errors import translate_errors
from cdc.run.spark.workers import check_workers


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


def test_a_python_that_is_not_on_the_workers_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(
        PreconditionError, match=r"/nowhere/python does not run on the workers: .*No such file"
    ) as raised:
        check_workers(spark)
    assert "name in spark.python a Python 3." in raised.value.remedy


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("exit 3", r"SparkException: EOFException occurred"),
        (
            "echo No module named pyspark >&2; exit 1",
            r"SparkException: Error from python worker: .*No module named pyspark",
        ),
    ],
)
def test_no_error_of_a_workers_python_ends_before_its_cause(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, cause: str
) -> None:
    """Spark writes a type without a text, and below it what the Python has said."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(program))
    with pytest.raises(CdcError, match=rf"the comparison stopped: .*{cause}"), translate_errors("the comparison"):
        spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
