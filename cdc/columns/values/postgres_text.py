"""Values as Postgres writes them in, Arrow columns out: arrays, and what Debezium would send with less in it.

The copy and the stream both come by here, so that one value is the same by either way. Sessions write dates in ISO
form, intervals in Postgres's own, money by the locale C and bytes as hex (`connect/source/sessions.py`).
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
from cdc.columns.values.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind

Texts = Sequence[str | None]

_INFINITIES: Final = ("Infinity", "-Infinity")
_PART: Final = r'"((?:[^"\\]|\\.)*)"|([^%s{}"]+)'
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def from_text(texts: Texts, column: Column) -> pa.Array:
    """A column's values, from their texts.

    Raises Unfit for a value that followers cannot hold, ValueError for what is none.
    """
    if column.array:
        return _arrays(texts, column)
    return _READERS.get(column.kind, _plain_texts)(texts, column)


def nearest_doubles(texts: pa.Array) -> pa.Array:
    """The double that is nearest to each numeric, of two the even one; NaN and infinities as they are.

    Raises Unfit for a number beyond all doubles, which would become infinity.
    """
    found = pc.cast(texts, pa.float64())
    beyond = pc.and_(pc.is_inf(found), pc.invert(pc.is_in(texts, pa.array(_INFINITIES))))
    if pc.any(beyond).as_py():
        raise UnsupportedValueError("a number that no double is near to")
    return found


def elements(text: str, separator: str = ",") -> list[str | None]:
    """The elements of an array as Postgres writes it (manual, "Array Input and Output Syntax").

    Raises Unfit unless it has one dimension that is counted from 1, or is empty.
    """
    if text == "{}":
        return []
    if not text.startswith("{"):
        raise UnsupportedValueError("an array that is not counted from 1")
    if text.startswith("{{"):
        raise UnsupportedValueError("an array of more than one dimension")
    inner = text[1:-1]
    if '"' not in inner:
        return [None if each == "NULL" else each for each in inner.split(separator)]
    found = re.finditer(_PART % re.escape(separator), inner)
    # what stands in quotes is text, whatever it is; without them NULL is none
    return [
        _ESCAPED.sub(r"\1", each[1]) if each[1] is not None else None if each[2] == "NULL" else each[2]
        for each in found
    ]


def _arrays(texts: Texts, column: Column) -> pa.Array:
    found = [None if text is None else elements(text, column.separator) for text in texts]
    offsets = [0, *accumulate(len(each or ()) for each in found)]
    values = from_text(list(chain.from_iterable(each or () for each in found)), column.element)
    # an offset that is null makes its row null
    starts = pa.array([None if each is None else at for each, at in zip(found, offsets, strict=False)], pa.int32())
    starts = pa.concat_arrays([starts, pa.array(offsets[-1:], pa.int32())])
    return pa.ListArray.from_arrays(starts, values, type=arrow_type(column))


def _plain_texts(texts: Texts, column: Column) -> pa.Array:
    return pa.array(texts, pa.string())


def _cast(texts: Texts, column: Column) -> pa.Array:
    """Arrow casts numbers from text exactly, or not at all."""
    return pc.cast(pa.array(texts, pa.string()), arrow_type(column))


def _booleans(texts: Texts, column: Column) -> pa.Array:
    return pa.array([None if text is None else _BOOLEANS[text] for text in texts], pa.bool_())


_BOOLEANS: Final = {"t": True, "f": False}


def _decimals(texts: Texts, column: Column) -> pa.Array:
    if "NaN" in texts:
        raise UnsupportedValueError("NaN")
    # money is written with them
    return _cast([text and text.replace("$", "").replace(",", "") for text in texts], column)


def _bytes(texts: Texts, column: Column) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in texts], pa.binary())


def _read(one: Callable[[str], Any], stored: pa.DataType | None = None) -> Callable[[Texts, Column], pa.Array]:
    """A reader value by value, of what Arrow has no cast for."""

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
