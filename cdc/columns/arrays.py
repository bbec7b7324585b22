"""Columns of fixed width as NumPy arrays."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


def is_text(kind: pa.DataType) -> bool:
    """Whether values have bytes of any number."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def fixed_bytes(array: pa.Array) -> Bytes:
    """The values as they lie in Arrow's buffer, a row each; a null's are zero, so that equal values are equal bytes."""
    if pa.types.is_boolean(array.type):
        return np.asarray(array.fill_null(False).cast(pa.uint8())).reshape(-1, 1)
    width = int(array.type.byte_width)
    # without values there may be no buffer
    if not len(array):
        return np.empty((0, width), np.uint8)
    data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, width)[array.offset : array.offset + len(array)]
    return np.where(np.asarray(array.is_null())[:, np.newaxis], np.uint8(0), data) if array.null_count else data
