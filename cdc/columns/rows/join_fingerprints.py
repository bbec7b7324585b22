"""Values of join columns as 128 bits: columns of different types that may be equal have equal bits where they are.

All rows with a null have the same bits, which no value has, but for a collision.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrays import Mask
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, key_bits
from cdc.columns.types.registry import BY_ARROW
from cdc.core.table import Column, Kind

NULL_BITS: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def join_bits(values: Sequence[pa.Array | pa.ChunkedArray]) -> KeyBits:
    """Compute the bits of rows by these columns; raises TypeError for a type without `comparison_type`."""
    arrays = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    is_null = has_null(arrays)
    columns, filled = list[Column](), list[pa.Array]()
    for array in arrays:
        found = _common_type(array.type)
        if found is None:
            raise TypeError(f"{array.type} is no type to join by")
        columns.append(found[0])
        filled.append(_fill_nulls(array.cast(found[1])))
    bits = key_bits(columns, filled)
    if is_null.any():
        # copies: the arrays may be views of other columns
        high, low = bits.high.copy(), bits.low.copy()
        high[is_null] = low[is_null] = NULL_BITS
        return KeyBits(high, low)
    return bits


def has_null(values: Sequence[pa.Array | pa.ChunkedArray]) -> Mask:
    """Which rows have a null in any of these columns."""
    mask: Mask = np.logical_or.reduce([np.asarray(array.is_null()) for array in values])
    return mask


def are_among(keys: KeyBits, others: KeyBits) -> Mask:
    """Which of these keys are among the others."""
    both = concat_keys([others, keys])
    order = both.order()
    group = np.cumsum(both.take(order).begins())
    is_other = order < len(others)
    hit = np.zeros(len(both), np.bool_)
    hit[order] = np.isin(group, group[is_other])
    return hit[len(others) :]


def comparison_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which values of this one are compared: values of two types are equal where it is the same.

    None for types whose values have no bits. Floats have none: NaN, and two zeros, are equal in some engines only.
    """
    common = _common_type(kind)
    return common and common[1]


def _common_type(kind: pa.DataType) -> tuple[Column, pa.DataType] | None:
    """The type in which values of this one are compared, as a column for `key_bits`."""
    if pa.types.is_decimal128(kind):
        # one precision for all, so that only the scale tells two types apart
        return Column("", Kind.DECIMAL, 38, kind.scale), pa.decimal128(38, kind.scale)
    common = pa.int64() if pa.types.is_integer(kind) else pa.string() if pa.types.is_large_string(kind) else kind
    found = BY_ARROW.get(common)
    return (Column("", found.kind), common) if found and found.is_comparable else None


def _fill_nulls(array: pa.Array) -> pa.Array:
    if not array.null_count:
        return array
    zero = "" if pa.types.is_string(array.type) else b"" if pa.types.is_binary(array.type) else 0
    # Arrow makes dates of integers of their own width only
    return pc.fill_null(array, pa.scalar(zero, pa.int32() if pa.types.is_date32(array.type) else None).cast(array.type))
