"""Rows with a number each, in columns sorted by the hashes of their keys: a key's text and 13 bytes a row. Pure."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdc.columns.arrays import Mask
from cdc.sinks.percolator.queries import Key

Hash = Callable[[Key], int]
Column = npt.NDArray[np.integer[Any]]
GONE: Final = 0
"""The number of a row that is there no more."""
NOWHERE: Final = -1
HASH_BITS: Final = 32
"""Those that are kept: of a million rows some two hundred share theirs, and their texts tell them apart."""
_LARGEST: Final = 2**HASH_BITS - 1
_PART: Final = 16
_END: Final = b"\xff"
"""Ends a text: no byte of UTF-8 is this one."""


class SortedRows:
    """Many rows are added at a time. One whose number is `GONE` stays, and may come back, until all those are dropped.

    `numbers`: of each place; they may be replaced.
    """

    def __init__(self, hash_of: Hash) -> None:
        self._hash_of = hash_of
        # in the order in which they came: no row that is added moves them
        self._texts = bytearray()
        self._set(np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint32))

    def __len__(self) -> int:
        return len(self.numbers)

    def find(self, row: Key) -> int:
        """The place of a row, `NOWHERE` for one that was not added."""
        hashes, hashed = self._hashes, self._hash_of(row) & _LARGEST
        part = hashed >> self._shift
        stop = self._parts[part + 1]
        place = bisect_left(hashes, hashed, self._parts[part], stop)
        while place < stop and hashes[place] == hashed:
            if self._texts.startswith(row.encode() + _END, self._starts[place]):
                return place
            place += 1
        return NOWHERE

    def select(self, numbers: Mask) -> Iterator[tuple[Key, int]]:
        """The rows that have one of these numbers; `numbers`: of each number, whether it is one of them."""
        texts, starts, theirs = self._texts, self._starts, self.numbers
        for place in np.flatnonzero(numbers[np.asarray(theirs)]).data:
            start = starts[place]
            yield texts[start : texts.index(_END, start)].decode(), theirs[place]

    def add(self, rows: Mapping[Key, int]) -> None:
        """Add rows that were not added before. A step of Python for each of them only."""
        texts = [row.encode() for row in rows]
        lengths = np.fromiter(map(len, texts), np.int64, len(rows)) + len(_END)
        starts = len(self._texts) + np.cumsum(lengths) - lengths
        hashes = np.fromiter(map(self._hash_of, rows), np.int64, len(rows)).astype(np.uint32)
        numbers = np.fromiter(rows.values(), np.uint32, len(rows))
        self._texts += _END.join([*texts, b""])
        order = np.argsort(hashes)
        at = np.searchsorted(self._hashes, hashes[order])
        self._set(
            np.insert(self._hashes, at, hashes[order]),
            np.insert(self._to_starts(self._starts), at, self._to_starts(starts[order])),
            np.insert(self.numbers, at, numbers[order]),
        )

    def drop_gone(self) -> None:
        """Give back the memory of rows that are `GONE`; a step of Python for each of them only."""
        is_there = np.asarray(self.numbers) != GONE
        starts = np.asarray(self._starts)
        gone, starts = np.sort(starts[~is_there]), starts[is_there]
        self._texts, lengths = self._without(gone.tolist())
        before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[np.searchsorted(gone, starts)]
        hashes, numbers = np.asarray(self._hashes)[is_there], np.asarray(self.numbers)[is_there]
        self._set(hashes, self._to_starts(starts - before), numbers)

    def _without(self, gone: Sequence[int]) -> tuple[bytearray, list[int]]:
        """The texts without those that begin at these places, and how long each of those was."""
        left, lengths, done = bytearray(), list[int](), 0
        texts = memoryview(self._texts)
        for start in gone:
            left += texts[done:start]
            done = self._texts.index(_END, start) + 1
            lengths.append(done - start)
        left += texts[done:]
        return left, lengths

    def _to_starts(self, starts: "Column | memoryview[int]") -> Column:
        """In four bytes each while the texts have less than 4 GiB."""
        return np.asarray(starts, np.uint32 if len(self._texts) <= _LARGEST else np.int64)

    def _set(self, hashes: Column, starts: Column, numbers: Column) -> None:
        # views: Python reads a value from one in a fraction of the time that it takes from an array
        self._hashes, self._starts, self.numbers = hashes.data, starts.data, numbers.data
        # by a hash's first bits: where the rows begin among which it is searched for
        bits = (len(hashes) // _PART).bit_length()
        self._shift = HASH_BITS - bits
        firsts = (np.arange(2**bits, dtype=np.int64) << self._shift).astype(np.uint32)
        self._parts = np.append(np.searchsorted(hashes, firsts), len(hashes)).astype(np.uint32).data
