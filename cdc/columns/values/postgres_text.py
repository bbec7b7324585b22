"""Converts Postgres's own texts to Arrow columns: arrays, and types of which Debezium would lose something.

The copy and the stream share this code, so both give the same value. The texts follow the settings of our sessions
(`connect/source/sessions.py`): dates in ISO form, intervals in Postgres's own, money in locale C, bytes as hex.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.values import intervals
from cdc.columns.values import timestamps as moments
from cdc.columns.values.arrow_types import arrow_type
from cdc.columns.values.decimals import to_decimals
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind

Texts = Sequence[str | None]

_INFINITIES: Final = ("Infinity", "-Infinity")
_PART: Final = r'"((?:[^"\\]|\\.)*)"|([^%s{}"]+)'
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def from_text(texts: Texts, column: Column) -> pa.Array:
    """Convert a column's texts to Arrow.

    Raises UnsupportedValueError for a value that followers cannot hold, ValueError for a text that is no value.
    """
    if column.array:
        return _arrays(texts, column)
    return _READERS.get(column.kind, _plain_texts)(texts, column)


def nearest_doubles(texts: pa.Array) -> pa.Array:
    """Convert each numeric to its nearest double (ties to even); NaN and infinities stay.

    Raises UnsupportedValueError for a number beyond all doubles, which would become infinity.
    """
    doubles = pc.cast(texts, pa.float64())
    # Arrow's cast does not raise for 1e400, it answers infinity
    beyond = pc.and_(pc.is_inf(doubles), pc.invert(pc.is_in(texts, pa.array(_INFINITIES))))
    if pc.any(beyond).as_py():
        raise UnsupportedValueError("a number that no double is near to")
    return doubles


def elements(text: str, separator: str = ",") -> list[str | None]:
    """Parse the text of an array into its elements (manual, "Array Input and Output Syntax").

    Raises UnsupportedValueError unless the array is empty, or has one dimension with indexes from 1.
    """
    if text == "{}":
        return []
    # Postgres writes other bounds in front: [0:1]={7,8}
    if not text.startswith("{"):
        raise UnsupportedValueError("an array that is not counted from 1")
    if text.startswith("{{"):
        raise UnsupportedValueError("an array of more than one dimension")
    inner = text[1:-1]
    # without quotes there is no separator within an element
    if '"' not in inner:
        return [None if element == "NULL" else element for element in inner.split(separator)]
    matches = re.finditer(_PART % re.escape(separator), inner)
    # a quoted "NULL" is text, an unquoted one is null
    return [
        _ESCAPED.sub(r"\1", match[1]) if match[1] is not None else None if match[2] == "NULL" else match[2]
        for match in matches
    ]


def _arrays(texts: Texts, column: Column) -> pa.Array:
    lists = [None if text is None else elements(text, column.separator) for text in texts]
    offsets = [0, *accumulate(len(each or ()) for each in lists)]
    values = from_text(list(chain.from_iterable(each or () for each in lists)), column.element)
    # a null offset makes its row null
    starts = pa.array([None if each is None else at for each, at in zip(lists, offsets, strict=False)], pa.int32())
    starts = pa.concat_arrays([starts, pa.array(offsets[-1:], pa.int32())])
    return pa.ListArray.from_arrays(starts, values, type=arrow_type(column))


def _plain_texts(texts: Texts, column: Column) -> pa.Array:
    return pa.array(texts, pa.string())


def _cast(texts: Texts, column: Column) -> pa.Array:
    """Cast numbers from text: Arrow does that exactly, or raises."""
    return pc.cast(pa.array(texts, pa.string()), arrow_type(column))


def _booleans(texts: Texts, column: Column) -> pa.Array:
    return pa.array([None if text is None else _BOOLEANS[text] for text in texts], pa.bool_())


_BOOLEANS: Final = {"t": True, "f": False}


def _decimals(texts: Texts, column: Column) -> pa.Array:
    # the text of money has a currency sign and separators
    return to_decimals(
        pa.array([text and text.replace("$", "").replace(",", "") for text in texts], pa.string()), column
    )


def _bytes(texts: Texts, column: Column) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in texts], pa.binary())


def _read(one: Callable[[str], Any], stored: pa.DataType | None = None) -> Callable[[Texts, Column], pa.Array]:
    """Make a reader that parses value by value, for types without a cast in Arrow."""

    def read(texts: Texts, column: Column) -> pa.Array:
        kind = arrow_type(column)
        return pc.cast(pa.array([None if text is None else one(text) for text in texts], stored or kind), kind)

    return read


_READERS: Final[dict[Kind, Callable[[Texts, Column], pa.Array]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.SMALLINT: _cast,
    Kind.INTEGER: _cast,
    Kind.BIGINT: _cast,
    Kind.OID: _cast,
    Kind.REAL: _cast,
    Kind.DOUBLE: _cast,
    Kind.DECIMAL: _decimals,
    Kind.BYTES: _bytes,
    Kind.DATE: _read(moments.parse_date, pa.int32()),
    Kind.TIME: _read(moments.parse_time),
    Kind.TIMESTAMP: _read(moments.parse_timestamp, pa.int64()),
    Kind.TIMESTAMPTZ: _read(moments.parse_timestamp, pa.int64()),
    Kind.INTERVAL: _read(intervals.to_iso),
}
