"""All types by kind, and the type of a column: also of an array or a struct, which are made of others."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.array_texts import array_of
from cdc.columns.types.byte_strings import BYTES
from cdc.columns.types.decimals import DECIMAL, NUMERIC
from cdc.columns.types.extensions.geometries import GEOMETRY
from cdc.columns.types.extensions.vectors import VECTOR
from cdc.columns.types.geometric_types import GEOMETRIC
from cdc.columns.types.intervals import INTERVAL
from cdc.columns.types.literals import LITERAL
from cdc.columns.types.moments import DATE, TIME, TIMESTAMP, TIMESTAMPTZ
from cdc.columns.types.numbers import BIGINT, BOOLEAN, DOUBLE, INTEGER, OID, REAL, SMALLINT
from cdc.columns.types.postgres_type import PostgresType
from cdc.columns.types.texts import ENUM, JSON, STRUCT, TEXT, UUID
from cdc.core.table import Column, Kind

_ALL: Final = (
    *(BOOLEAN, SMALLINT, INTEGER, BIGINT, OID, REAL, DOUBLE, TEXT, JSON, UUID, BYTES, DATE, TIME, TIMESTAMP),
    *(TIMESTAMPTZ, INTERVAL, GEOMETRIC, DECIMAL, NUMERIC, ENUM, VECTOR, GEOMETRY),
    *(LITERAL, STRUCT),
)
TYPES: Final[Mapping[Kind, PostgresType]] = {each.kind: each for each in _ALL}
"""In the order of TYPES.md."""
BY_ARROW: Final[Mapping[pa.DataType, PostgresType]] = {each.arrow: each for each in reversed(_ALL)}
"""The type whose values are nothing but Arrow's: of several, the first."""


WriteColumn = Callable[[pa.ChunkedArray | pa.Array, Column], pa.Array]


@cache
def type_of(column: Column) -> PostgresType:
    """The type of a column's values, with their precision, their elements and their fields."""
    if column.array:
        return array_of(type_of(column.element))
    if column.fields:
        return _struct_of(column.fields)
    found = TYPES[column.kind]
    return found.of(column) if found.of else found


def write_column(values: pa.ChunkedArray | pa.Array, column: Column) -> pa.Array:
    return type_of(column).write(values)


def write_objects(
    rows: pa.Table | pa.RecordBatch, columns: tuple[Column, ...], write: WriteColumn = write_column
) -> pa.Array:
    """Write rows as JSON objects with these columns, in this order, each as `write` does."""
    if not rows.num_rows:
        return pa.array([], pa.string())
    parts: list[pa.Array | str] = []
    for column in columns:
        name = json.dumps(column.name, ensure_ascii=False)
        parts += [f"{',' if parts else '{'}{name}:", write(rows[column.name], column)]
    # the last argument is the separator; a null part would make the whole document null, so none is null
    return pc.binary_join_element_wise(*parts, "}", "")


def _struct_of(columns: tuple[Column, ...]) -> PostgresType:
    return replace(
        STRUCT,
        arrow=pa.struct([pa.field(each.name, type_of(each).arrow) for each in columns]),
        to_json=partial(_write_structs, columns=columns),
        index={"type": "object", "properties": {each.name: dict(type_of(each).index) for each in columns}},
    )


def _write_structs(array: pa.StructArray, columns: tuple[Column, ...]) -> pa.Array:
    # flatten() makes the fields of a null struct null
    fields = pa.Table.from_arrays(array.flatten(), [each.name for each in columns])
    return pc.if_else(array.is_valid(), write_objects(fields, columns), None)
