"""A lake's tables as Spark frames.

Of a folder and of S3, by Delta's own reader. Hadoop's clients of the other stores are not loaded: their tables are read
by Spark's tasks through the client that writes them, which needs no jar, and has the same credentials.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.types.spark_types import row_type
from cdc.core.errors import TableLostError
from cdc.core.table import TableName
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.layout import Lake, open_table
from cdc.sinks.lake.settings import S3Settings


def reads_by_delta(lake: Lake) -> bool:
    """Does Spark read this lake by Delta's own reader?"""
    return lake.access is None or isinstance(lake.access, S3Settings)


def open_frame(spark: SparkSession, lake: Lake, name: TableName, version: int | None = None) -> DataFrame:
    """A table, view or epoch of a history at a version, or the newest; raises TableLostError when it is gone."""
    if reads_by_delta(lake):
        reader = spark.read.format("delta")
        reader = reader if version is None else reader.option("versionAsOf", version)
        return reader.load(lake.folder(name))
    opened = open_table(lake, name, version)
    if opened is None:
        raise TableLostError(name, "it is gone from the lake")
    log, table = opened
    copy = LakeCopy(spark, table, lake.table_storage(name), [*log.snapshot.files.values()])
    return copy.map_parts(_as_batches, row_type(table))


def _as_batches(rows: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    for part in rows:
        yield from part.to_batches()
