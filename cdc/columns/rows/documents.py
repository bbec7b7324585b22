"""Rows as JSON documents: one canonical form for the search index, the latest topics and digests.

Documents are built column by column: a document is the join of its columns' texts.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import KafkaColumn, within
from cdc.columns.table_copy import TableCopy
from cdc.columns.values.spark_types import row_type
from cdc.columns.values.timestamps import time_of_day
from cdc.core.table import Column, Kind, Table

# json.dumps with ensure_ascii=False escapes exactly these
_TO_ESCAPE = r'[\x00-\x1f"\\]'
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Days since 1970 of the years 1 to 9999, which have four digits."""
_DAY_MICROS = 86_400_000_000
_ERA_DAYS, _ERA_YEARS = 146_097, 400

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
}
"""Options for Spark to read these documents."""

LONGEST_SHOWN: Final = 80
"""Characters of a key's value in a message."""

PORTION_ROWS: Final = 50_000
PORTION_BYTES: Final = 64 * 1024 * 1024
"""Rows and bytes of one array of documents: Arrow's string arrays end at 2 GiB."""


def portions(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into slices that fit into one array of documents, in order."""
    # at least one: a single row may be larger than a portion
    size = max(1, min(PORTION_ROWS, PORTION_BYTES * max(rows.num_rows, 1) // max(rows.nbytes, 1)))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def documents_of(copy: TableCopy, table: Table) -> DataFrame:
    """Convert a copy to a frame of key documents and documents: columns KEY and VALUE of `KafkaColumn`, strings."""
    return copy.map_parts(partial(_documents_of, table=table), f"{KafkaColumn.KEY} string, {KafkaColumn.VALUE} string")


def rows_of(texts: DataFrame, table: Table) -> DataFrame:
    """Parse documents in a column VALUE; returns the table's rows, with the types of `row_type`."""
    row = texts.select(F.from_json(F.col(KafkaColumn.VALUE), row_type(table), _OPTIONS).alias("row"))
    return row.select(*(within("row", name).alias(name) for name in table.column_names))


def _documents_of(parts: Iterable[pa.Table], table: Table) -> Iterator[pa.RecordBatch]:
    for rows in chain.from_iterable(map(portions, parts)):
        texts = [key_documents(rows, table), documents(rows, table)]
        yield pa.RecordBatch.from_arrays(texts, names=[KafkaColumn.KEY, KafkaColumn.VALUE])


def documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Write each row as JSON: numerics as strings with all digits, bytes in base64, times with six digits."""
    return _objects(rows, table.columns)


def key_documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Write each row's key as JSON, in the key's column order: equal keys have equal texts.

    It is the id of a document in the index, and the key by which Kafka compacts a latest topic.
    """
    return _objects(rows, table.key_columns)


def describe_key(document: str | bytes, key: Sequence[str]) -> str:
    """Describe a row by its key, `id = 7 and name = x`; `document` is its document or its key's."""
    values = json.loads(document)
    return " and ".join(f"{name} = {_format_value(values[name])}" for name in key)


def _format_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # a user's text may hold control characters, and a message goes to terminals and logs
    return (text if text.isprintable() else repr(text))[:LONGEST_SHOWN]


def _objects(rows: pa.Table | pa.RecordBatch, columns: tuple[Column, ...]) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], pa.string())
    parts: list[pa.Array | str] = []
    for column in columns:
        name = json.dumps(column.name, ensure_ascii=False)
        parts += [f"{',' if parts else '{'}{name}:", value_texts(rows[column.name], column)]
    # the last argument is the separator; a null part would make the whole document null, so none is null
    return pc.binary_join_element_wise(*parts, "}", "")


def value_texts(values: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array:
    """Write a column's values as they appear in a document: equal values have equal texts."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    # empty, as the elements of empty lists: for no values pc.all and pc.any return null
    if not len(array):
        return pa.array([], pa.string())
    text = _nested(array, column) if column.array or column.fields else _write_values(array, column)
    # only here: quoting leaves a null null, and the word null has no quotes
    return pc.fill_null(text, "null") if array.null_count else text


def _write_values(array: pa.Array, column: Column) -> pa.Array:
    return _WRITERS.get(column.kind, _to_json_strings)(array)


def _nested(array: pa.Array, column: Column) -> pa.Array:
    return _lists(array, column) if column.array else _structs(array, column)


def _structs(array: pa.StructArray, column: Column) -> pa.Array:
    # flatten() makes the fields of a null struct null
    fields = pa.Table.from_arrays(array.flatten(), [each.name for each in column.fields])
    return pc.if_else(array.is_valid(), _objects(fields, column.fields), None)


def _lists(array: pa.ListArray, column: Column) -> pa.Array:
    elements = pa.ListArray.from_arrays(array.offsets, value_texts(array.values, column.element))
    # no element is null any more: `value_texts` writes the word, and one null would make the whole text null
    inner = pc.binary_join(elements, ",")
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise("[", inner, "]", ""), None)


def _numbers(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.string())


def _floats(array: pa.Array) -> pa.Array:
    """Write floats as numbers; NaN and infinity as strings, since JSON has no such numbers."""
    text = pc.cast(array, pa.string())
    finite = pc.is_finite(array)
    if pc.all(pc.fill_null(finite, True)).as_py():
        return text
    names = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, text, names)


def _decimals(array: pa.Array) -> pa.Array:
    text = pc.cast(array, pa.string())
    # Arrow writes 1.00E-8 and 0E-10, Postgres all digits
    scientific = pc.match_substring(text, "E")
    if pc.any(scientific).as_py():
        # Decimal keeps the scale: 0E-10 becomes 0.0000000000
        plain = pa.array([f"{Decimal(value):f}" for value in text.filter(scientific).to_pylist()])
        text = pc.replace_with_mask(text, pc.fill_null(scientific, False), plain)
    return _in_quotes(text)


def _to_json_strings(array: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(array, _TO_ESCAPE)
    text = _in_quotes(array)
    if not pc.any(special).as_py():
        return text
    escaped = pa.array([json.dumps(value, ensure_ascii=False) for value in array.filter(special).to_pylist()])
    return pc.replace_with_mask(text, pc.fill_null(special, False), escaped)


def _bytes(array: pa.Array) -> pa.Array:
    encoded = [None if value is None else base64.b64encode(value) for value in array.to_pylist()]
    return _in_quotes(pa.array(encoded, pa.binary()).cast(pa.string()))


def _dates(array: pa.Array) -> pa.Array:
    return _moments(array, pc.cast(array, pa.int32()).cast(pa.int64()), lambda text: text, _day)


def _timestamps(array: pa.Array, zone: str = "") -> pa.Array:
    # Integer division would round towards 1970, so floats. They may err by microseconds at midnight; that only matters
    # at the first and last usual day, where both branches write the same text.
    days = pc.floor(pc.divide(pc.cast(array, pa.int64()).cast(pa.float64(), safe=False), float(_DAY_MICROS)))
    plain = array.cast(pa.timestamp("us"))
    return _moments(plain, pc.cast(days, pa.int64()), lambda text: pc.replace_substring(text, " ", "T"), _moment, zone)


def _moments(
    array: pa.Array,
    days: pa.Array,
    shaped: Callable[[pa.Array], pa.Array],
    written: Callable[[int], str],
    zone: str = "",
) -> pa.Array:
    """Write dates or timestamps as Arrow does; those without a four-digit year are written by `written`."""
    usual = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    if pc.all(pc.fill_null(usual, True)).as_py():
        return _in_quotes(shaped(pc.cast(array, pa.string())), zone)
    text = shaped(pc.cast(pc.if_else(usual, array, None), pa.string()))
    odd = pc.fill_null(pc.invert(usual), False)
    numbers = array.filter(odd).cast(pa.int32() if pa.types.is_date(array.type) else pa.int64()).to_pylist()
    return _in_quotes(pc.replace_with_mask(text, odd, pa.array([written(number) for number in numbers])), zone)


def _day(days: int) -> str:
    """Write a date of any year, `+12024-02-29` or `-0044-03-15`: shift it by whole eras into Python's years."""
    eras = days // _ERA_DAYS
    near = date(1970, 1, 1) + timedelta(days=days - eras * _ERA_DAYS)
    year = near.year + eras * _ERA_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{near:%m-%d}"


def _moment(micros: int) -> str:
    days, of_day = divmod(micros, _DAY_MICROS)
    return f"{_day(days)}T{time_of_day(of_day)}"


def _in_quotes(text: pa.Array, behind: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', text, f'{behind}"', "")


_WRITERS: dict[Kind, Callable[[pa.Array], pa.Array]] = {
    Kind.BOOLEAN: _numbers,
    Kind.SMALLINT: _numbers,
    Kind.INTEGER: _numbers,
    Kind.BIGINT: _numbers,
    Kind.REAL: _floats,
    Kind.DOUBLE: _floats,
    Kind.DECIMAL: _decimals,
    Kind.BYTES: _bytes,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
    Kind.TIMESTAMPTZ: partial(_timestamps, zone="Z"),
    Kind.OID: _numbers,
}
