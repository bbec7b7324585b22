"""Vectors of pgvector: lists of floats, from the text that Postgres writes in the log and in a copy.

A vector and a halfvec are `[1,2.5]`; a sparsevec, `{1:1.5,3:-2}/5`, has its zeros in the list, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.array_texts import array_of
from cdc.columns.types.copied_fields import to_texts
from cdc.columns.types.numbers import REAL
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind

MOST_DIMENSIONS: Final = 16_000
"""pgvector's own bound of a vector and a halfvec; a sparsevec may have a billion, nearly all of them zeros."""
_LISTS: Final = array_of(REAL)


def _read(texts: Sequence[str | None], column: Column) -> pa.Array:
    if any(text is not None and text.startswith("{") for text in texts):
        texts = [text and _to_dense(text) for text in texts]
    parts = pc.split_pattern(pc.utf8_trim(pa.array(texts, pa.string()), "[]"), ",")
    # Arrow casts from text to the nearest float, which is the one that Postgres has written
    floats = pc.cast(parts.flatten(), pa.float32())
    return pa.ListArray.from_arrays(_offsets(parts), floats, type=_LISTS.arrow)


def _offsets(parts: pa.ListArray) -> pa.Array:
    """The bounds of lists whose values are only those of valid lists; a null bound makes its row null."""
    lengths = pc.fill_null(pc.list_value_length(parts), 0)
    bounds = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    there = pa.concat_arrays([parts.is_valid(), pa.array([True])])
    return pc.if_else(there, bounds, pa.scalar(None, pa.int32()))


def _to_dense(text: str) -> str:
    pairs, _, dimensions = text.removeprefix("{").partition("}/")
    if int(dimensions) > MOST_DIMENSIONS:
        raise UnsupportedValueError(f"a sparsevec of more than {MOST_DIMENSIONS:,} dimensions")
    floats = ["0"] * int(dimensions)
    for place, _, number in (pair.partition(":") for pair in pairs.split(",") if pair):
        floats[int(place) - 1] = number
    return f"[{','.join(floats)}]"


VECTOR: Final = replace(
    _LISTS,
    kind=Kind.VECTOR,
    names=(),
    extensions=("vector", "halfvec", "sparsevec"),
    has_name=True,
    from_log=_read,
    from_text=_read,
    from_copy=lambda field, column: _read(to_texts(field).to_pylist(), column),
    # stored only: as points of their own, a thousand floats a row would fill the index, and find nothing
    index={"type": "float", "index": False, "doc_values": False},
    wider=("text",),
    exact="exact, every float of it; a sparsevec has up to 16,000 dimensions, and any number as text",
)
