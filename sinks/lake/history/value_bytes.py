"""The bytes of a column's values that a digest is made of: the same for equal values, wherever they were read from."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Feed = Callable[[bytes | memoryview], object]


def feed_values(feed: Feed, values: pa.Array) -> None:
    """Feed the validity of each value, then the values; numbers in their widest type, since a column may be widened."""
    feed(np.packbits(np.asarray(pc.is_valid(values))).tobytes())
    if pa.types.is_struct(values.type):
        # flatten() puts the struct's nulls into its fields
        for part in values.flatten():
            feed_values(feed, part)
    elif pa.types.is_list(values.type):
        feed(_as_bytes(pc.list_value_length(values).cast(pa.int64())))
        feed_values(feed, values.flatten())
    elif pa.types.is_decimal(values.type):
        feed_values(feed, _shorten(values))
    elif pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        feed(_as_bytes(pc.binary_length(values).cast(pa.int64())))
        feed(_content(values.drop_null()))
    else:
        feed(_as_bytes(_widen(values)))


def _shorten(values: pa.Array) -> pa.Array:
    """Decimals as texts without zeros at the end: a column may get more digits."""
    texts = values.cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".") if values.type.scale > 0 else texts


def _widen(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    # Arrow casts a date by way of its own width only
    return (values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).cast(pa.int64())


def _as_bytes(values: pa.Array) -> bytes:
    zero = 0.0 if pa.types.is_floating(values.type) else 0
    return np.asarray(values.fill_null(zero)).tobytes()


def _content(values: pa.Array) -> memoryview:
    """The characters or bytes of all values, one behind the other; none is null."""
    _, offsets, content = values.buffers()
    if not len(values) or content is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return memoryview(content)[ends[0] : ends[-1]]
