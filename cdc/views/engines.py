"""The two engines that evaluate a view's statement over few rows."""

from collections.abc import Mapping
from contextlib import suppress

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from cdc.core.table import TableName
from cdc.views.compiled import CompiledView
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.spark.frames import run_on_rows
from cdc.views.statement.dialect.statements import DuckStatement


class Engines:
    """Evaluates statements in DuckDB, in milliseconds, and in Spark, in about a second, what DuckDB may not.

    DuckDB evaluates a statement if every expression in it is proven to give there what it gives in Spark
    (`statement/PROVEN.md`).
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._duckdb = Evaluator()

    def run(self, view: CompiledView, rows: Mapping[TableName, pa.Table]) -> pa.Table:
        """Run a view's statement on these rows. Raises PySparkException for an error in it."""
        if isinstance(view.duckdb, DuckStatement):
            # An error there need not be one of the statement: Spark decides. Rows that no filter keeps may be the
            # cause, or a value that only Spark can hold.
            with suppress(duckdb.Error):
                return self._duckdb.evaluate(view.duckdb.sql, {view.names[name]: each for name, each in rows.items()})
        return run_on_rows(self._spark, view.statement, rows)
