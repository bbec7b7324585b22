"""The Spark type of every kind of column, and back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

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


_KINDS: Final[Mapping[type[T.DataType], Kind]] = {
    T.BooleanType: Kind.BOOLEAN,
    T.ByteType: Kind.SMALLINT,
    T.ShortType: Kind.SMALLINT,
    T.IntegerType: Kind.INTEGER,
    T.LongType: Kind.BIGINT,
    T.FloatType: Kind.REAL,
    T.DoubleType: Kind.DOUBLE,
    T.StringType: Kind.TEXT,
    T.BinaryType: Kind.BYTES,
    T.DateType: Kind.DATE,
    T.TimestampNTZType: Kind.TIMESTAMP,
    T.TimestampType: Kind.TIMESTAMPTZ,
}
"""The kind of a Spark type's column."""


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


def to_column(name: str, kind: T.DataType) -> Column | None:
    """A column of a Spark type; None for maps, intervals, variants, lists of lists and values without a type."""
    if isinstance(kind, T.ArrayType):
        element = to_column(name, kind.elementType)
        return replace(element, array=True) if element and not element.array else None
    if isinstance(kind, T.StructType):
        fields = [to_column(field.name, field.dataType) for field in kind.fields]
        whole = tuple(field for field in fields if field is not None)
        return Column(name, Kind.STRUCT, fields=whole) if whole and len(whole) == len(fields) else None
    if isinstance(kind, T.DecimalType):
        return Column(name, Kind.DECIMAL, kind.precision, kind.scale)
    # by its own class only: CHAR and VARCHAR are kinds of StringType with rules of their own
    found = _KINDS.get(type(kind))
    return Column(name, found) if found else None
