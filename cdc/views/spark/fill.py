"""Compute a whole view by Spark, and make it the view's content."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import quoted
from cdc.columns.table_copy import FrameCopy
from cdc.core.copied_file import CopiedFile
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Table
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.table.load import LakeCopyWriter, prepare_folder
from cdc.views.refresh.refresh import ViewShape

_COPIED = "path string, bytes long, rows long, statistics string"
_RESULT = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("statistics", pa.string())])


def write_result(frame: DataFrame, shape: ViewShape, lake: Lake) -> list[CopiedFile]:
    """Write a statement's result as files of the view, which nobody reads before they are loaded.

    Raises ViewStoppedError when the key is not one.
    """
    table, storage = shape.table, prepare_folder(lake, shape.table.name)
    copy = FrameCopy(frame, table)
    # one file a partition
    rows = copy.map_parts(partial(_write, shape=shape, write=LakeCopyWriter(table, storage)), _COPIED).collect()
    files = [CopiedFile(*row) for row in rows if row["rows"]]
    _check_key(frame.sparkSession, table, [f"{lake.folder(table.name)}/{file.path}" for file in files])
    return files


def _write(parts: Iterator[pa.Table], shape: ViewShape, write: LakeCopyWriter) -> Iterable[pa.RecordBatch]:
    made = write(batch for part in parts for batch in shape.conform(part).to_batches())
    yield pa.RecordBatch.from_pylist([asdict(made)], _RESULT)


def _check_key(spark: SparkSession, table: Table, paths: list[str]) -> None:
    if not paths:
        return
    key = [F.col(quoted(name)) for name in table.key]
    null = F.max(F.greatest(*(column.isNull().cast("int") for column in [*key, F.lit(0)])))
    # of the files, so that the statement runs once
    groups = spark.read.parquet(*paths).groupBy(*key).agg(F.count("*").alias("rows"), null.alias("is_null"))
    wrong = groups.where("rows > 1 OR is_null > 0").limit(1).collect()
    if wrong:
        where = " and ".join(f"{name} = {wrong[0][name]}" for name in table.key)
        problem = "is null in a row" if wrong[0]["is_null"] else f"is not unique: {wrong[0]['rows']} rows"
        raise ViewStoppedError(table.name, f"its key {problem} of the result, where {where}")
