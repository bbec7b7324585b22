"""A row as a document of an index: what differs from the document that other followers have."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cdc.columns.types.registry import type_of, write_objects
from cdc.core.table import Column, Table


def field_of(column: Column) -> Mapping[str, Any]:
    """The mapping of a column's field, by its type."""
    return type_of(column).index


def write_indexed(values: pa.ChunkedArray | pa.Array, column: Column) -> pa.Array:
    """Write a column's values as the documents of an index have them."""
    found = type_of(column)
    return found.write(values, found.to_index)


def write_documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Write rows as documents of an index with all their columns."""
    return write_objects(rows, table.columns, write_indexed)
