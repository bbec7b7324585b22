"""Tables in Arrow's types, as in a copied file."""

import pyarrow as pa

from cdc.columns.types.registry import type_of
from cdc.core.table import Column, Table


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
    """The column's Arrow type; what Arrow has no type for is a string."""
    return type_of(column).arrow
