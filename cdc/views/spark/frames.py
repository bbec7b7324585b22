"""A view's statement over whole tables, by Spark: the meaning of the view."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.names import quoted
from cdc.columns.types.arrow_types import arrow_schema
from cdc.columns.types.spark_types import row_type
from cdc.core.table import Table, TableName
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.feed.small_tables import hold_small
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.statement.statement import Statement

FEW_ROWS: Final = 20_000
"""Of all tables of a statement: more are worth several tasks."""
ONE_TASK: Final = {
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    # else every exchange is a job of its own, to count what one task would have sorted by then
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for few rows: most of the time of their jobs is that of tasks which begin and end."""


@lru_cache(maxsize=1)
def open_session_of_few_rows(spark: SparkSession) -> SparkSession:
    """A session of the same application, for statements over few rows in memory."""
    session = spark.newSession()
    for name, value in ONE_TASK.items():
        session.conf.set(name, value)
    return session


def read_table(spark: SparkSession, lake: Lake, cut: Cut, name: TableName) -> DataFrame:
    """A table or view of a lake at a cut that has it."""
    return open_frame(spark, lake, name, cut.versions[str(name)])


def open_rows(spark: SparkSession, rows: pa.Table, table: Table) -> DataFrame:
    """Rows in memory, which have the columns of this table."""
    # Spark reads no further than an empty chunk
    return spark.createDataFrame(rows.combine_chunks(), row_type(table))


def open_tables(
    spark: SparkSession, lake: Lake, cut: Cut, tables: Iterable[Table]
) -> tuple[SparkSession, dict[TableName, DataFrame]]:
    """Tables and views of a lake at a cut that has them, and their session; small ones are taken into memory.

    The session is that of few rows if all of them together have few.
    """
    held = {table: hold_small(lake, table, cut.versions[str(table.name)]) for table in tables}
    counts = [FEW_ROWS + 1 if rows is None else rows.num_rows for rows in held.values()]
    own = open_session_of_few_rows(spark) if sum(counts) <= FEW_ROWS else spark
    return own, {
        table.name: read_table(own, lake, cut, table.name) if rows is None else open_rows(own, rows, table)
        for table, rows in held.items()
    }


def run_on_rows(spark: SparkSession, statement: Statement, rows: Mapping[TableName, pa.Table]) -> pa.Table:
    """The result of a statement over these rows, which have those of their tables' columns that it reads."""
    with run_over_rows(spark, statement, rows) as result:
        found: pa.Table = result.toArrow()
        return found


@contextmanager
def run_over_rows(spark: SparkSession, statement: Statement, rows: Mapping[TableName, pa.Table]) -> Iterator[DataFrame]:
    """The same as a frame, as long as the context lasts."""
    tables = statement.tables
    if sum(each.num_rows for each in rows.values()) <= FEW_ROWS:
        spark = open_session_of_few_rows(spark)
    frames = {name: open_rows(spark, _complete(each, tables[name]), tables[name]) for name, each in rows.items()}
    with run_statement(spark, statement, frames) as result:
        yield result


@contextmanager
def run_statement(
    spark: SparkSession, statement: Statement, tables: Mapping[TableName, DataFrame]
) -> Iterator[DataFrame]:
    """The result of a statement over these frames, as long as the context lasts."""
    # temporary views are global to the session, and other views may be computed at the same time
    mark = uuid.uuid4().hex
    names = {name: f"cdc_{mark}_{number}" for number, name in enumerate(sorted(statement.table_names))}
    for name, temporary in names.items():
        # the columns as the statement was read: a star means these, whatever was added since
        columns, frame = statement.tables[name].column_names, tables[name]
        if frame.columns != [*columns]:
            frame = frame.select(*map(quoted, columns))
        frame.createOrReplaceTempView(temporary)
    try:
        yield spark.sql(statement.rename_tables(names))
    finally:
        for temporary in names.values():
            spark.catalog.dropTempView(temporary)


def _complete(rows: pa.Table, table: Table) -> pa.Table:
    """The rows with all columns of their table; those that nothing reads are null."""
    schema = arrow_schema(table)
    missing = {field.name: pa.nulls(len(rows), field.type) for field in schema if field.name not in rows.column_names}
    columns = [missing[field.name] if field.name in missing else rows[field.name] for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
