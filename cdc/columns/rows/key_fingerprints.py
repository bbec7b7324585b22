"""Keys as 128 bits: netting groups changes by them, and the key index finds rows by them.

The bits come from the key's typed columns, not from its text in the log: a copied row has no message. If the columns
fit into 16 bytes, the bits are those bytes, so different keys have different bits. Otherwise they are a BLAKE2b hash
(RFC 7693) of the columns' bytes. It is cryptographic, since users choose keys, and a collision would merge two rows.

The bits are stored on disk: a change here needs another `FORMAT` in `sinks/lake/index/key_index.py`.
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
from cdc.columns.types.postgres_type import Bytes, KeyForm
from cdc.columns.types.registry import type_of
from cdc.core.table import Column

Words = npt.NDArray[np.uint64]

BYTES = 16
_HALF = 8
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class KeyBits:
    """A column of keys: the upper and the lower half of their bits."""

    # two words: numpy has no integers of 128 bits
    high: Words
    low: Words

    @classmethod
    def from_digests(cls, digests: Iterable[bytes]) -> "KeyBits":
        """The keys whose bits are these digests, of 16 bytes each."""
        halves = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)
        return cls(halves[:, 0].copy(), halves[:, 1].copy())

    def __len__(self) -> int:
        return len(self.high)

    def take(self, at: npt.NDArray[Any]) -> "KeyBits":
        """Select the keys at these places, or where a mask is true."""
        return KeyBits(self.high[at], self.low[at])

    def order(self) -> Integers:
        """Sort: the places of the keys in ascending order; stable."""
        places: Integers = np.lexsort((self.low, self.high))
        return places

    def begins(self) -> Mask:
        """For sorted keys: true where a key differs from the one before."""
        is_first = np.ones(len(self), np.bool_)
        is_first[1:] = (self.high[1:] != self.high[:-1]) | (self.low[1:] != self.low[:-1])
        return is_first

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.high.tolist(), self.low.tolist(), strict=True))


def zero_keys(length: int) -> KeyBits:
    """Make keys whose bits are all zero: for changes that have no such key."""
    return KeyBits(np.zeros(length, np.uint64), np.zeros(length, np.uint64))


def empty_keys() -> KeyBits:
    return zero_keys(0)


def concat_keys(parts: Sequence[KeyBits]) -> KeyBits:
    if not parts:
        return empty_keys()
    return KeyBits(np.concatenate([part.high for part in parts]), np.concatenate([part.low for part in parts]))


def key_bits(columns: Sequence[Column], values: Sequence[pa.Array | pa.ChunkedArray]) -> KeyBits:
    """Compute the bits of keys whose `columns` have these `values` (in the types of `arrow_type`, without nulls).

    Bits show which keys are equal; their order is not the keys' order.
    """
    # buffers are read below, and a chunked array has several
    arrays = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    forms = [type_of(column).key for column in columns]
    fixed = [form for form in forms if form]
    if len(fixed) == len(forms) and sum(form.width for form in fixed) <= BYTES:
        return _pack([form.to_bytes(array) for form, array in zip(fixed, arrays, strict=True)])
    return _hash_keys(forms, arrays)


def _pack(columns: Sequence[Bytes]) -> KeyBits:
    rows, used = len(columns[0]), sum(column.shape[1] for column in columns)
    packed = np.zeros((rows, BYTES), np.uint8)
    # up to eight bytes use the upper half alone: neighbouring keys stay neighbours in the index, and are read together
    at = _HALF - used if used <= _HALF else BYTES - used
    for column in columns:
        packed[:, at : at + column.shape[1]] = column
        at += column.shape[1]
    halves = packed.view(">u8").astype(np.uint64)
    high, low = halves[:, 0].copy(), halves[:, 1].copy()
    return KeyBits(high, low) if used <= _HALF else _mix(high, low)


def _mix(high: Words, low: Words) -> KeyBits:
    """Permute the bits so that the upper half differs for nearly all keys.

    The index is searched by that half (`SortedRun.find`), and the first column of a long key may be the same in every
    row.
    """
    # a permutation: each line can be undone with the half that it does not change, as in a Feistel cipher
    high = high ^ _scatter(low)
    return KeyBits(high, low ^ _scatter(high))


def _scatter(words: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    # modulo 2^64 on purpose: numpy arrays wrap without a warning
    words = words + _MIX[0]
    words = (words ^ (words >> np.uint64(30))) * _MIX[1]
    words = (words ^ (words >> np.uint64(27))) * _MIX[2]
    return words ^ (words >> np.uint64(31))


def _hash_keys(forms: Sequence[KeyForm | None], arrays: Sequence[pa.Array]) -> KeyBits:
    return KeyBits.from_digests(blake2b(row, digest_size=BYTES).digest() for row in _rows(forms, arrays))


def _rows(forms: Sequence[KeyForm | None], arrays: Sequence[pa.Array]) -> Iterable[bytes]:
    """The bytes of every row: columns of fixed width, then the others, each but the last with its length before it.

    So different rows have different bytes.
    """
    pairs = list(zip(forms, arrays, strict=True))
    fixed = [form.to_bytes(array) for form, array in pairs if form]
    texts = [_in_bytes(array).to_pylist() for form, array in pairs if not form]
    # the last one needs no length: it ends with the row
    framed = [map(prefix_length, values) for values in texts[:-1]]
    parts = [*([slice_rows(np.hstack(fixed))] if fixed else []), *framed, *texts[-1:]]
    return parts[0] if len(parts) == 1 else map(b"".join, zip(*parts, strict=True))


def _in_bytes(array: pa.Array) -> pa.Array:
    """Convert to bytes; floats by their text, where 0 and -0 differ, as they do in Postgres's log."""
    return array if pa.types.is_binary(array.type) else array.cast(pa.string()).cast(pa.binary())


def slice_rows(matrix: Bytes) -> list[bytes]:
    """The bytes of each row."""
    whole, width = np.ascontiguousarray(matrix).tobytes(), matrix.shape[1]
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def prefix_length(part: bytes) -> bytes:
    """The bytes, with their number before them in four."""
    return struct.pack(">I", len(part)) + part
