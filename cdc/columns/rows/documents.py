"""Rows as JSON text: one canonical form for the index, the latest log and whoever reads them.

Column by column, never row by row: a document is the join of its columns' texts.
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

# json.dumps escapes these, and with ensure_ascii=False no others
_TO_ESCAPE = r'[\x00-\x1f"\\]'
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""From year 1 to year 9999, since 1970: what is written with four digits."""
_DAY_MICROS = 86_400_000_000
_ERA_DAYS, _ERA_YEARS = 146_097, 400

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
}
"""How Spark reads what is written here."""

LONGEST_SHOWN: Final = 80
"""Characters of a value of a key, where a message says which row it speaks of."""

PORTION_ROWS: Final = 50_000
PORTION_BYTES: Final = 64 * 1024 * 1024
"""What is written at a time: an array of texts ends at 2 GiB."""


def portions(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows in slices that can be written as documents, in their order."""
    size = max(1, min(PORTION_ROWS, PORTION_BYTES * max(rows.num_rows, 1) // max(rows.nbytes, 1)))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def documents_of(copy: TableCopy, table: Table) -> DataFrame:
    """A copy in, the keys and documents of its rows out: columns KEY and VALUE of `Message`, both texts."""
    return copy.map_parts(partial(_documents_of, table=table), f"{KafkaColumn.KEY} string, {KafkaColumn.VALUE} string")


def rows_of(texts: DataFrame, table: Table) -> DataFrame:
    """Documents in a column VALUE in, the table's rows out, typed as `row_type` says."""
    row = texts.select(F.from_json(F.col(KafkaColumn.VALUE), row_type(table), _OPTIONS).alias("row"))
    return row.select(*(within("row", name).alias(name) for name in table.column_names))


def _documents_of(parts: Iterable[pa.Table], table: Table) -> Iterator[pa.RecordBatch]:
    for rows in chain.from_iterable(map(portions, parts)):
        texts = [key_documents(rows, table), documents(rows, table)]
        yield pa.RecordBatch.from_arrays(texts, names=[KafkaColumn.KEY, KafkaColumn.VALUE])


def documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Each row as JSON text: numerics as strings with all their digits, bytes in base64, times with six digits."""
    return _objects(rows, table.columns)


def key_documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Each row's key as JSON text, in the key's column order: the same key is always the same text.

    It is the id of a document in the index, and the key by which Kafka compacts the latest log.
    """
    return _objects(rows, table.key_columns)


def describe_key(document: str | bytes, key: Sequence[str]) -> str:
    """Where a row is, by its key, in one short line: `id = 7 and name = x`. In: its document, or that of its key."""
    values = json.loads(document)
    return " and ".join(f"{name} = {_format_value(values[name])}" for name in key)


def _format_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (text if text.isprintable() else repr(text))[:LONGEST_SHOWN]


def _objects(rows: pa.Table | pa.RecordBatch, columns: tuple[Column, ...]) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], pa.string())
    parts: list[pa.Array | str] = []
    for column in columns:
        name = json.dumps(column.name, ensure_ascii=False)
        parts += [f"{',' if parts else '{'}{name}:", _texts(rows[column.name], column)]
    # the last argument stands between the others; one part that is null would make the whole document null
    return pc.binary_join_element_wise(*parts, "}", "")


def _texts(values: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array:
    """A column's values as they stand in a document."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    # the elements of empty lists: of nothing, Arrow says neither that all nor that none is usual
    if not len(array):
        return pa.array([], pa.string())
    text = _lists(array, column) if column.array else _WRITERS.get(column.kind, _to_json_strings)(array)
    # here and not before: a null stays null when texts are put in quotes, and this word has none
    return pc.fill_null(text, "null") if array.null_count else text


def _lists(array: pa.ListArray, column: Column) -> pa.Array:
    """JSON arrays of what their elements are written as."""
    each = pa.ListArray.from_arrays(array.offsets, _texts(array.values, column.element))
    inner = pc.binary_join(each, ",")
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise("[", inner, "]", ""), None)


def _numbers(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.string())


def _floats(array: pa.Array) -> pa.Array:
    """JSON has no NaN and no infinity: they are texts."""
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
        text = _replace_where(text, scientific, lambda value: f"{Decimal(value):f}")
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
    # integers would be rounded towards 1970. A float may err by microseconds around midnight, and is good enough here:
    # at the edges of what is usual, both ways write the same text
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
    """As Arrow writes them; years of other than four digits are written here."""
    usual = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    if pc.all(pc.fill_null(usual, True)).as_py():
        return _in_quotes(shaped(pc.cast(array, pa.string())), zone)
    text = shaped(pc.cast(pc.if_else(usual, array, None), pa.string()))
    odd = pc.fill_null(pc.invert(usual), False)
    numbers = array.filter(odd).cast(pa.int32() if pa.types.is_date(array.type) else pa.int64()).to_pylist()
    return _in_quotes(pc.replace_with_mask(text, odd, pa.array([written(number) for number in numbers])), zone)


def _day(days: int) -> str:
    """A date of any year, `+12024-02-29` and `-0044-03-15`: moved by whole eras into years that Python has."""
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


def _replace_where(text: pa.Array, mask: pa.Array, change: Callable[[str], str]) -> pa.Array:
    changed = [change(value) for value in text.filter(mask).to_pylist()]
    return pc.replace_with_mask(text, pc.fill_null(mask, False), pa.array(changed, pa.string()))


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
