"""Keys as 128 bits: what changes of one key are gathered by, and rows of a key are found by.

The key's typed columns go in, never its text in the log: a copied row has no message. A key whose columns together fit
into 16 bytes is those bytes, so that different keys are different bits. Others are BLAKE2b hashes (RFC 7693) of their
columns' bytes: cryptographic, since keys are a user's data, and two keys that met would be one row.

The bits are on disks: whoever changes them changes `FORMAT` in `sinks/lake/index/key_index.py` as well.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.values.arrow_types import LONGEST_WHOLE
from cdc.core.table import Column, Kind

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

BYTES = 16
_WIDTHS = {
    Kind.BOOLEAN: 1,
    Kind.SMALLINT: 2,
    Kind.INTEGER: 4,
    Kind.DATE: 4,
    Kind.BIGINT: 8,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMPTZ: 8,
    Kind.UUID: 16,
    Kind.DECIMAL: 16,
}
_HALF = 8
_UUID_DASHES = (8, 13, 18, 23)
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class KeyBits:
    """A column of keys: the upper and the lower half of each one's bits."""

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.high)

    def take(self, at: npt.NDArray[Any]) -> "KeyBits":
        """The keys at these places, or where a mask is true."""
        return KeyBits(self.high[at], self.low[at])

    def order(self) -> Integers:
        """The places of the keys in ascending order; equal keys stay in the order that they had."""
        found: Integers = np.lexsort((self.low, self.high))
        return found

    def begins(self) -> Mask:
        """Of keys in order: which are others than the one before."""
        found = np.ones(len(self), np.bool_)
        found[1:] = (self.high[1:] != self.high[:-1]) | (self.low[1:] != self.low[:-1])
        return found

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.high.tolist(), self.low.tolist(), strict=True))


def empty_keys() -> KeyBits:
    return KeyBits(np.empty(0, np.uint64), np.empty(0, np.uint64))


def concat_keys(parts: Sequence[KeyBits]) -> KeyBits:
    """Columns of keys, one behind the other."""
    if not parts:
        return empty_keys()
    return KeyBits(np.concatenate([part.high for part in parts]), np.concatenate([part.low for part in parts]))


def key_bits(columns: Sequence[Column], values: Sequence[pa.Array | pa.ChunkedArray]) -> KeyBits:
    """The bits of keys whose `columns` have these `values` (as `arrow_type` types them; none may be null).

    They say which keys are equal, never which is the greater one.
    """
    arrays = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    widths = [_width(column) for column in columns]
    if None not in widths and sum(width or 0 for width in widths) <= BYTES:
        return _pack([_to_fixed_bytes(column, array) for column, array in zip(columns, arrays, strict=True)])
    return _hash_keys(columns, arrays)


def _width(column: Column) -> int | None:
    if column.kind is Kind.DECIMAL and column.precision <= LONGEST_WHOLE:
        return _HALF
    return _WIDTHS.get(column.kind)


def _to_fixed_bytes(column: Column, array: pa.Array) -> Bytes:
    """The column's bytes, big-endian, a row a value."""
    match column.kind:
        case Kind.UUID:
            return _uuid_bytes(array)
        case Kind.DECIMAL:
            return _decimal_bytes(array, _width(column) or BYTES)
        case Kind.BOOLEAN:
            return np.asarray(array.cast(pa.uint8())).reshape(-1, 1)
    integers = pa.int32() if column.kind is Kind.DATE else pa.int64()
    # with a null among them these would be floats: numpy has no other way to say it
    numbers = np.asarray(array.cast(integers) if column.kind not in (Kind.SMALLINT, Kind.INTEGER) else array)
    return _big_endian(numbers)


def _big_endian(numbers: npt.NDArray[Any]) -> Bytes:
    width = numbers.dtype.itemsize
    return np.ascontiguousarray(numbers).byteswap().view(np.uint8).reshape(-1, width)


def _uuid_bytes(array: pa.Array) -> Bytes:
    """Thirty-six characters, four of them dashes, as sixteen bytes."""
    text = _characters(array.cast(pa.string()), 36)
    digits = np.delete(text, _UUID_DASHES, axis=1)
    # Postgres writes them in lower case; in the branch that is not taken, bytes wrap below 0
    values: Bytes = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint8)
    return ((values[:, 0::2] << 4) | values[:, 1::2]).astype(np.uint8)


def _characters(array: pa.Array, width: int) -> Bytes:
    # a slice has the buffers of the whole array, as in `_decimal_bytes`
    _, offsets, data = array.buffers()
    if not len(array):
        return np.empty((0, width), np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(len(array), width)


def _decimal_bytes(array: pa.Array, width: int) -> Bytes:
    """The unscaled value of a decimal128, which Arrow keeps in 16 bytes, little-endian."""
    data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, BYTES)[array.offset : array.offset + len(array)]
    # shortened from the upper end, which is only the sign again
    return data[:, width - 1 :: -1] if width < BYTES else data[:, ::-1]


def _pack(columns: Sequence[Bytes]) -> KeyBits:
    rows, used = len(columns[0]), sum(column.shape[1] for column in columns)
    held = np.zeros((rows, BYTES), np.uint8)
    # keys of up to eight bytes in the upper half alone: neighbours stay neighbours, and are found together
    at = _HALF - used if used <= _HALF else BYTES - used
    for column in columns:
        held[:, at : at + column.shape[1]] = column
        at += column.shape[1]
    halves = held.view(">u8").astype(np.uint64)
    high, low = halves[:, 0].copy(), halves[:, 1].copy()
    return KeyBits(high, low) if used <= _HALF else _mix(high, low)


def _mix(high: Words, low: Words) -> KeyBits:
    """The same keys under other bits, one to one, whose upper half tells nearly all of them apart.

    The index is searched by that half (`Run.find`), and the first column of a long key may be the same in every row.
    """
    # one to one, whatever is scattered: each line is undone by the half that it leaves alone, as in a Feistel cipher
    high = high ^ _scatter(low)
    return KeyBits(high, low ^ _scatter(high))


def _scatter(words: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    # modulo 2^64, as it is meant: arrays wrap in silence
    words = words + _MIX[0]
    words = (words ^ (words >> np.uint64(30))) * _MIX[1]
    words = (words ^ (words >> np.uint64(27))) * _MIX[2]
    return words ^ (words >> np.uint64(31))


def _hash_keys(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> KeyBits:
    digests = b"".join([blake2b(row, digest_size=BYTES).digest() for row in _rows(columns, arrays)])
    halves = np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)
    return KeyBits(halves[:, 0].copy(), halves[:, 1].copy())


def _rows(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> Iterable[bytes]:
    """The bytes of every row: columns of a fixed width, then the others, all but the last behind its length.

    So no two rows are the same bytes.
    """
    pairs = list(zip(columns, arrays, strict=True))
    fixed = [_to_fixed_bytes(column, array) for column, array in pairs if _width(column) is not None]
    texts = [_in_bytes(array).to_pylist() for column, array in pairs if _width(column) is None]
    # the last one needs no length: it ends where the row does
    parts = [
        *([_slices(np.hstack(fixed))] if fixed else []),
        *(map(_prefix_length, each) for each in texts[:-1]),
        *texts[-1:],
    ]
    return parts[0] if len(parts) == 1 else map(b"".join, zip(*parts, strict=True))


def _in_bytes(array: pa.Array) -> pa.Array:
    """Texts and bytes as they are; floats by their text, in which 0 and -0 are two, as they are in Postgres's log."""
    return array if pa.types.is_binary(array.type) else array.cast(pa.string()).cast(pa.binary())


def _slices(matrix: Bytes) -> list[bytes]:
    whole, width = np.ascontiguousarray(matrix).tobytes(), matrix.shape[1]
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def _prefix_length(part: bytes) -> bytes:
    return struct.pack(">I", len(part)) + part
