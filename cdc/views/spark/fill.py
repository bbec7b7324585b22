"""Compute a whole view by Spark, and make it the view's content."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import quoted
from cdc.columns.rows import digest as digests
from cdc.columns.table_copy import FrameCopy, TableCopy
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.copied_file import CopiedFile
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Table
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.load import LakeCopyWriter, prepare_folder
from cdc.views.refresh.refresh import ViewShape
from cdc.views.refresh.write_rows import find_key_problem

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
    if sum(file.bytes for file in files) <= digests.SMALL_BYTES:
        problem = find_key_problem(_read_keys(storage, files, table), table.key)
    else:
        paths = [f"{lake.folder(table.name)}/{file.path}" for file in files]
        problem = _find_key_problem(frame.sparkSession, table, paths)
    if problem:
        raise ViewStoppedError(table.name, problem)
    return files


def copy_rows(copy: TableCopy, table: Table, lake: Lake) -> list[CopiedFile]:
    """Write a copy's rows as files of a view with the same columns, which nobody reads before they are loaded."""
    write = LakeCopyWriter(table, prepare_folder(lake, table.name))
    rows = copy.map_parts(partial(_write_copy, write=write), _COPIED).collect()
    return [CopiedFile(*row) for row in rows if row["rows"]]


def _write_copy(parts: Iterator[pa.Table], write: LakeCopyWriter) -> Iterable[pa.RecordBatch]:
    made = write(batch for part in parts for batch in part.to_batches())
    yield pa.RecordBatch.from_pylist([asdict(made)], _RESULT)


def _write(parts: Iterator[pa.Table], shape: ViewShape, write: LakeCopyWriter) -> Iterable[pa.RecordBatch]:
    made = write(batch for part in parts for batch in shape.conform(part).to_batches())
    yield pa.RecordBatch.from_pylist([asdict(made)], _RESULT)


def _read_keys(storage: Storage, files: Sequence[CopiedFile], table: Table) -> pa.Table:
    """The key's columns, of the files, so that the statement runs once."""
    whole = arrow_schema(table)
    schema = pa.schema([whole.field(name) for name in table.key])
    parts = (pq.read_table(storage.open(file.path), columns=schema.names) for file in files)
    return pa.concat_tables([schema.empty_table(), *(conform(part, schema) for part in parts)])


def _find_key_problem(spark: SparkSession, table: Table, paths: list[str]) -> str | None:
    key = [F.col(quoted(name)) for name in table.key]
    null = F.max(F.greatest(*(column.isNull().cast("int") for column in [*key, F.lit(0)])))
    groups = spark.read.parquet(*paths).groupBy(*key).agg(F.count("*").alias("rows"), null.alias("is_null"))
    wrong = groups.where("rows > 1 OR is_null > 0").limit(1).collect()
    if not wrong:
        return None
    where = " and ".join(f"{name} = {wrong[0][name]}" for name in table.key)
    problem = "is null in a row" if wrong[0]["is_null"] else f"is not unique: {wrong[0]['rows']} rows"
    return f"its key {problem} of the result, where {where}"
