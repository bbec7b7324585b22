"""The Spark type of a column, and back: what Arrow's type is in Spark."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from cdc.columns.types.registry import BY_ARROW, type_of
from cdc.core.table import Column, Kind, Table

_KINDS: Final[Mapping[type[T.DataType], Kind]] = {
    T.ByteType: Kind.SMALLINT,
    **{type(from_arrow_type(arrow)): each.kind for arrow, each in BY_ARROW.items()},
}
"""The kind of a Spark type's column."""


def spark_type(column: Column) -> T.DataType:
    """The column's Spark type in a follower's table."""
    return from_arrow_type(type_of(column).arrow)


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
