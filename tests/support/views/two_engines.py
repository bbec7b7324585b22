"""The same expressions in Spark and in DuckDB, as the views' refresh runs them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc.columns.types.spark_types import row_type
from cdc.core.table import Table, TableName
from cdc.views.statement.dialect.macros import create_macros
from cdc.views.statement.dialect.statements import DuckStatement, write_statement
from cdc.views.statement.dialect.types import UnorderedArrayType
from cdc.views.statement.dialect.values import Unproven
from cdc.views.statement.parsing import parse_statement

FAILS = "fails"
"""In place of a value, where an engine has an error."""

_SETTINGS: Final = {
    # what two expressions share would be computed outside of what catches its errors
    "spark.sql.subexpressionElimination.enabled": "false",
    # some rows in one task each
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class Results:
    """The values of one expression in the rows' order, with FAILS where there is an error, and Spark's type of it."""

    type: str
    spark: Sequence[object]
    duckdb: Sequence[object]

    @property
    def differences(self) -> list[int]:
        """Where the engines differ, other than that DuckDB has an error: then Spark is asked."""
        pairs = enumerate(zip(self.spark, self.duckdb, strict=True))
        return [row for row, (mine, theirs) in pairs if theirs not in (FAILS, mine)]

    @property
    def compared(self) -> int:
        return sum(value != FAILS for value in self.duckdb)

    @property
    def both_fail(self) -> int:
        return sum(one == other == FAILS for one, other in zip(self.spark, self.duckdb, strict=True))

    @property
    def left_to_spark(self) -> int:
        return len(self.duckdb) - self.compared - self.both_fail


@dataclass(frozen=True, slots=True)
class Accepted:
    """An expression in DuckDB's SQL, what follows FROM, and the type that Spark is expected to give."""

    sql: str
    source: str
    type: str


def translate(sql: str, tables: Mapping[TableName, Table]) -> DuckStatement | list[Unproven]:
    """A statement as DuckDB's refresh has it, over tables by their own names."""
    return write_statement(parse_statement("v", sql, tables), {name: name.table for name in tables})


class Engines:
    """Both engines, with the same tables."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        self.duckdb = duckdb.connect(":memory:")
        self.duckdb.execute("SET threads = 1")
        self.duckdb.execute("SET TimeZone = 'UTC'")
        create_macros(self.duckdb)
        self.tables: dict[TableName, Table] = {}
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        # once: of each name between the dots, Java looks into every jar for a class
        classes = jvm.org.apache.spark.sql
        columns = classes.classic.ExpressionUtils
        self._to_expression, self._to_column = columns.expression, columns.column
        self._try_eval = classes.catalyst.expressions.TryEval

    def put(self, table: Table, rows: pa.Table) -> None:
        """Give both engines a table."""
        name = table.name.table
        self.tables[table.name] = table
        self.duckdb.register(name, rows)
        self.spark.createDataFrame(rows, schema=row_type(table)).createOrReplaceTempView(name)

    def compare(self, expressions: Mapping[str, Accepted]) -> dict[str, Results]:
        """Run expressions of Spark's SQL over the table `t`, row by row in the order of its column `n`.

        `expressions`: in Spark's SQL, with their SQL for DuckDB.
        """
        asked = [self._try(text) for text in expressions]
        frame = self.spark.table("t").select(
            "n",
            *(value.alias(f"v{at}") for at, (value, _) in enumerate(asked)),
            *(is_null.alias(f"n{at}") for at, (_, is_null) in enumerate(asked)),
        )
        # a sort in Spark is two more jobs
        schema, found = frame.schema, frame.toArrow().sort_by("n")
        results = dict[str, Results]()
        for at, (text, sql) in enumerate(expressions.items()):
            expected = cells(found[f"v{at}"], found[f"n{at}"])
            actual = self._run(sql, found.schema.field(f"v{at}").type)
            results[text] = Results(schema[f"v{at}"].dataType.simpleString(), expected, actual)
        return results

    def _run(self, sql: Accepted, to: pa.DataType) -> list[object]:
        query = f"SELECT TRY({sql.sql}) AS v, TRY(({sql.sql}) IS NULL) AS n FROM {sql.source} ORDER BY t.n"
        found = self.duckdb.sql(query).to_arrow_table()
        return cells(found["v"].cast(to), found["n"])

    def _try(self, text: str) -> tuple[SparkColumn, SparkColumn]:
        """An expression that is null where it has an error, and whether it is null, which is null there."""
        return self._guard(F.expr(text)), self._guard(F.expr(f"({text}) IS NULL"))

    def _guard(self, column: SparkColumn) -> SparkColumn:
        guarded = self._try_eval(self._to_expression(column._jc))
        return SparkColumn(self._to_column(guarded))

    def rows(self, sql: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """The rows of a whole statement in Spark and in DuckDB, each sorted; the statement must be proven."""
        statement = translate(sql, self.tables)
        assert isinstance(statement, DuckStatement), (sql, statement)
        frame = self.spark.sql(sql)
        types = [of.simpleString() for of in statement.types]
        assert [field.dataType.simpleString() for field in frame.schema] == types, sql
        expected = spark_table(frame)
        actual = self.run(statement, expected.schema)
        return sorted_rows(expected, statement.types), sorted_rows(actual, statement.types)

    def run(self, statement: DuckStatement, schema: pa.Schema) -> pa.Table:
        """A statement's result in DuckDB, as the columns that Spark's has."""
        found = self.duckdb.sql(statement.sql).to_arrow_table()
        return pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(found.columns, schema, strict=True)], schema=schema
        )


def spark_table(frame: DataFrame) -> pa.Table:
    found: pa.Table = frame.toArrow()
    return found


def sorted_rows(rows: pa.Table, types: Sequence[T.DataType]) -> list[tuple[object, ...]]:
    """The rows in an order of their own; so are lists whose order is not certain."""
    columns = [cells(column) for column in rows.columns]
    for at, of in enumerate(types):
        if isinstance(of, UnorderedArrayType):
            columns[at] = [sorted(each, key=repr) if isinstance(each, list) else each for each in columns[at]]
    return sorted(zip(*columns, strict=True), key=repr)


def cells(column: pa.ChunkedArray, is_null: pa.ChunkedArray | None = None) -> list[object]:
    """A column's values so that only the same are equal: NaN is, zeros of two signs are not."""
    values = [_cell(value) for value in column.cast(_plain(column.type)).to_pylist()]
    if is_null is None:
        return values
    # an engine may know without computing it that an array is not null, though one of its elements has an error
    pairs = zip(values, is_null.to_pylist(), strict=True)
    return [FAILS if null is None or (value is None and not null) else value for value, null in pairs]


def _plain(of: pa.DataType) -> pa.DataType:
    """Python has no dates beyond year 9999."""
    if pa.types.is_list(of):
        return pa.list_(_plain(of.value_type))
    if pa.types.is_struct(of):
        return pa.struct([(field.name, _plain(field.type)) for field in of])
    if pa.types.is_date32(of):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(of) else of


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, list):
        return [_cell(each) for each in value]
    if isinstance(value, dict):
        return {name: _cell(each) for name, each in value.items()}
    return value
