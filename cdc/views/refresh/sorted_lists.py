"""Sorts the lists of a result whose order nobody decides (`views.statement.analysis.list_order`)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.arrow_types import arrow_type
from cdc.columns.types.registry import type_of
from cdc.core.table import Column, Table
from cdc.views.statement.analysis.list_order import ELEMENT, ListPaths


def sort_lists(rows: pa.Table, table: Table, unordered: Mapping[str, ListPaths]) -> pa.Table:
    """Sort these lists by their elements' JSON, in rows of the table's Arrow schema."""
    for at, column in enumerate(table.columns):
        if paths := unordered.get(column.name.lower()):
            array = rows.column(at).combine_chunks()
            rows = rows.set_column(at, rows.schema.field(at), _sort(array, column, paths))
    return rows


def _sort(array: pa.Array, column: Column, paths: ListPaths) -> pa.Array:
    if column.array:
        elements = frozenset(path[1:] for path in paths if path and path[0] == ELEMENT)
        return _rebuild_list(array, column, elements, is_sorted=() in paths)
    if not column.fields:
        return array
    fields = [
        _sort(values, field, frozenset(path[1:] for path in paths if path and path[0].lower() == field.name.lower()))
        for values, field in zip(array.flatten(), column.fields, strict=True)
    ]
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type(column)), mask=array.is_null())


def _rebuild_list(array: pa.ListArray, column: Column, elements: ListPaths, *, is_sorted: bool) -> pa.Array:
    element = replace(column, array=False)
    values = array.flatten()
    if elements:
        values = _sort(values, element, elements)
    if is_sorted and len(values):
        parents = np.asarray(pc.list_parent_indices(array))
        ranks = np.asarray(pc.rank(type_of(element).write(values), sort_keys="ascending", tiebreaker="first"))
        values = values.take(pa.array(np.lexsort((ranks, parents))))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, arrow_type(column), mask=array.is_null())
