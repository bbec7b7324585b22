"""The Arrow type of every kind of column, as in a copied file."""

from typing import Final

import pyarrow as pa

from cdc.core.table import Column, Kind, Table

LONGEST_WHOLE: Final = 18
"""The most digits of a decimal that fits into 64 bits."""

_TYPES: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.SMALLINT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.REAL: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    # unsigned in Postgres: an oid above 2^31 is no int32
    Kind.OID: pa.int64(),
}


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a copied file, in the table's order."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in table.columns])


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to this schema; a column that they do not have is null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_type(column: Column) -> pa.DataType:
    """The column's Arrow type; kinds without one of their own are strings."""
    if column.array:
        # Parquet's name of a list's element, which all readers of Delta expect
        return pa.list_(pa.field("element", arrow_type(column.element)))
    if column.kind is Kind.STRUCT:
        return pa.struct([pa.field(each.name, arrow_type(each)) for each in column.fields])
    if column.kind is Kind.DECIMAL:
        return pa.decimal128(column.precision, column.scale)
    return _TYPES.get(column.kind, pa.string())
