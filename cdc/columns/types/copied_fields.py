"""Columns of a block of a binary COPY, as `snapshots/binary_copy.py` parses it, and Arrow arrays of their bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """A column of a block whose values all have the same length, without NULLs."""

    values: npt.NDArray[np.void]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The values as `kind`, which has their length."""
        return self.values.view(kind)

    def rows(self, first: int, behind: int) -> "FixedColumn":
        """The column in some of the rows only."""
        return FixedColumn(self.values[first:behind])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def there(self) -> Mask | None:
        return None


@dataclass(frozen=True, slots=True)
class VariableColumn:
    """A column of variable width: concatenated values, `bounds` (n + 1 offsets), `lengths` (-1 = NULL).

    `content` goes on behind the last value by LONGEST_HEAD bytes.
    """

    content: npt.NDArray[np.uint8]
    bounds: Integers
    lengths: npt.NDArray[np.int32]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The first bytes of each value as `kind` (at most LONGEST_HEAD); if shorter, with bytes of the next value."""
        dtype = np.dtype(kind)
        # a view with a stride of one byte: nothing is copied before the values are selected
        overlapping: npt.NDArray[Any] = np.ndarray(
            (len(self.content) - dtype.itemsize + 1,), dtype, self.content, 0, (1,)
        )
        return overlapping[self.bounds[:-1]]

    def rows(self, first: int, behind: int) -> "VariableColumn":
        return VariableColumn(self.content, self.bounds[first : behind + 1], self.lengths[first:behind])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def there(self) -> Mask | None:
        """The mask of rows with a value; None if all have one."""
        there = self.lengths >= 0
        return None if there.all() else there


Field = FixedColumn | VariableColumn


def to_array(kind: pa.DataType, there: Mask | None, values: npt.NDArray[Any], rows: int | None = None) -> pa.Array:
    """Make an Arrow array of values that have its layout already."""
    count = len(values) if rows is None else rows
    return pa.Array.from_buffers(kind, count, [_validity(there), pa.py_buffer(np.ascontiguousarray(values))])


def to_strings(field: Field, kind: pa.DataType) -> pa.Array:
    """Make Arrow strings or bytes, which have the same layout: concatenated values and offsets."""
    assert isinstance(field, VariableColumn)
    # int32 is enough: a block has BLOCK_BYTES and one more CopyData message, which has at most 1 GiB
    offsets, content = pa.py_buffer(field.bounds.astype(np.int32)), pa.py_buffer(field.content)
    return pa.Array.from_buffers(kind, len(field), [_validity(field.there), offsets, content])


def to_texts(field: Field, column: Column | None = None) -> pa.Array:
    """Make Arrow strings of any column that is selected as text."""
    return to_strings(field, pa.string())


def check_supported(there: Mask | None, fit: Mask, otherwise: str) -> None:
    """Raise UnsupportedValueError, which says `otherwise`, where a value that is there is not fit."""
    if not (fit if there is None else fit | ~there).all():
        raise UnsupportedValueError(otherwise)


def _validity(there: Mask | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
