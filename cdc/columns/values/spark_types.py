"""The Spark type of every kind of column."""

from pyspark.sql import types as T

from cdc.core.table import Column, Kind, Table

_SPARK_TYPES: dict[Kind, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.SMALLINT: T.ShortType(),
    Kind.INTEGER: T.IntegerType(),
    Kind.BIGINT: T.LongType(),
    Kind.REAL: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.BYTES: T.BinaryType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampNTZType(),
    Kind.TIMESTAMPTZ: T.TimestampType(),
    Kind.OID: T.LongType(),
}


def spark_type(column: Column) -> T.DataType:
    """The column's Spark type in a follower's table; kinds without one of their own are strings."""
    if column.array:
        return T.ArrayType(spark_type(column.element))
    if column.kind is Kind.STRUCT:
        return T.StructType([T.StructField(each.name, spark_type(each)) for each in column.fields])
    if column.kind is Kind.DECIMAL:
        return T.DecimalType(column.precision, column.scale)
    return _SPARK_TYPES.get(column.kind, T.StringType())


def row_type(table: Table) -> T.StructType:
    return T.StructType([T.StructField(c.name, spark_type(c)) for c in table.columns])
