"""A view's statement over whole tables, by Spark: the meaning of the view."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.names import quoted
from cdc.core.table import TableName
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cut
from views.statement.statement import Statement


def read_table(spark: SparkSession, lake: Lake, cut: Cut, name: TableName) -> DataFrame:
    """A table or view of a lake at a cut that has it."""
    return spark.read.format("delta").option("versionAsOf", cut.versions[str(name)]).load(lake.folder(name))


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
        columns = [quoted(column) for column in statement.tables[name].column_names]
        tables[name].select(*columns).createOrReplaceTempView(temporary)
    try:
        yield spark.sql(statement.rename_tables(names))
    finally:
        for temporary in names.values():
            spark.catalog.dropTempView(temporary)
