"""Arrays: Postgres's own text in the log and in a copy, lists in followers.

The copy and the stream share this code, so both give the same value. The texts follow the settings of our sessions
(`connect/source/access/sessions.py`): dates in ISO form, intervals in Postgres's own, money in locale C, bytes as hex.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.copied_fields import to_texts
from cdc.columns.types.postgres_type import AS_TEXT, PostgresType
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column

_PART: Final = r'"((?:[^"\\]|\\.)*)"|([^%s{}"]+)'
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def array_of(element: PostgresType) -> PostgresType:
    """The type of one-dimensional arrays of these elements."""
    read = partial(_read, element=element)
    return replace(
        element,
        # Parquet's name of a list's element, which all readers of Delta expect
        arrow=pa.list_(pa.field("element", element.arrow)),
        sent_as=str,
        from_log=read,
        is_sent_whole=False,
        from_text=read,
        selected=AS_TEXT,
        copied_width=0,
        # the binary form is not worth parsing
        from_copy=lambda field, column: read(to_texts(field).to_pylist(), column),
        to_json=partial(_write, element=element),
        key=None,
        # of structs: so that a search asks of one element at a time
        index={**element.index, "type": "nested"} if "properties" in element.index else element.index,
        is_out_of_line=True,
        wider=tuple(each for each in element.wider if each != "text"),
    )


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


def _read(texts: Sequence[str | None], column: Column, *, element: PostgresType) -> pa.Array:
    lists = [None if text is None else elements(text, column.separator) for text in texts]
    offsets = [0, *accumulate(len(each or ()) for each in lists)]
    values = element.from_text(list(chain.from_iterable(each or () for each in lists)), column.element)
    # a null offset makes its row null
    starts = pa.array([None if each is None else at for each, at in zip(lists, offsets, strict=False)], pa.int32())
    starts = pa.concat_arrays([starts, pa.array(offsets[-1:], pa.int32())])
    return pa.ListArray.from_arrays(starts, values, type=pa.list_(pa.field("element", element.arrow)))


def _write(array: pa.ListArray, *, element: PostgresType) -> pa.Array:
    written = pa.ListArray.from_arrays(array.offsets, element.write(array.values))
    # no element is null any more: `write` writes the word, and one null would make the whole text null
    inner = pc.binary_join(written, ",")
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise("[", inner, "]", ""), None)
