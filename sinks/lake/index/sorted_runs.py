"""Sorted runs of key fingerprints with the places of their rows, in memory; `run_files.py` has those in files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits, Words

Places = npt.NDArray[np.uint64]
"""File number in the upper 32 bits, row number in the lower 32."""

IsLive = Callable[[Places], Mask]
"""Returns which places are still live rows of the table."""

ROW_BITS: Final = np.uint64(32)
_ROW_MASK: Final = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class IndexHits:
    """Entries found, deleted rows included: `queries` are positions in the list of searched keys."""

    queries: Integers
    places: Places

    @property
    def files(self) -> Integers:
        return (self.places >> ROW_BITS).astype(np.int64)

    @property
    def rows(self) -> Integers:
        return (self.places & _ROW_MASK).astype(np.int64)

    def take(self, at: npt.NDArray[Any]) -> "IndexHits":
        return IndexHits(self.queries[at], self.places[at])


MAX_STEPS: Final = 8
"""Entries with the same upper half that are compared one by one; more are compared in one step."""
NO_HITS: Final = IndexHits(np.empty(0, np.int64), np.empty(0, np.uint64))


class SortedRun(Protocol):
    """Entries in key order. `name`: their file; None in memory."""

    @property
    def name(self) -> str | None: ...

    def __len__(self) -> int: ...

    def find(self, keys: KeyBits) -> IndexHits:
        """Find the entries of these sorted keys."""

    def estimate(self, keys: KeyBits) -> int:
        """How many entries these keys have that share an upper half with very many, at least about."""

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> "MemoryRun":
        """The entries with upper halves from `since` (inclusive) to `until` (exclusive); None means no bound."""

    def bounds(self, every: int) -> Words:
        """Upper halves that split the run into pieces of about `every` entries."""


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """A `SortedRun` in memory."""

    keys: KeyBits
    places: Places

    @property
    def name(self) -> str | None:
        return None

    def __len__(self) -> int:
        return len(self.places)

    def find(self, keys: KeyBits) -> IndexHits:
        """Find the entries of these keys; fastest for sorted keys."""
        at = np.searchsorted(self.keys.high, keys.high)
        queries = np.arange(len(keys))
        parts: list[tuple[Integers, Places]] = []
        # entries with equal upper halves are neighbours: each step compares the next one. Few steps suffice, as only a
        # key's deleted rows share a half (`cdc.columns.rows.key_fingerprints`)
        for _ in range(MAX_STEPS):
            if not len(queries):
                break
            # a key larger than all entries has no position in the run
            inside = at < len(self)
            queries, at = queries[inside], at[inside]
            same = self.keys.high[at] == keys.high[queries]
            queries, at = queries[same], at[same]
            match = self.keys.low[at] == keys.low[queries]
            parts.append((queries[match], self.places[at[match]]))
            at = at + 1
        if len(queries):
            # equal rows of a keyless table share both halves, perhaps a million of them
            queries, at = expand_ranges(queries, at, np.searchsorted(self.keys.high, keys.high[queries], "right"))
            match = self.keys.low[at] == keys.low[queries]
            parts.append((queries[match], self.places[at[match]]))
        return concat_hits(parts)

    def estimate(self, keys: KeyBits) -> int:
        high = self.keys.high
        return int((np.searchsorted(high, keys.high, "right") - np.searchsorted(high, keys.high)).sum())

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> "MemoryRun":
        high = self.keys.high
        start = 0 if since is None else int(np.searchsorted(high, since))
        stop = len(self) if until is None else int(np.searchsorted(high, until))
        return MemoryRun(KeyBits(high[start:stop], self.keys.low[start:stop]), self.places[start:stop])

    def bounds(self, every: int) -> Words:
        return self.keys.high[every::every]


def concat_hits(parts: Sequence[tuple[Integers, Places]]) -> IndexHits:
    return IndexHits(np.concatenate([a for a, _ in parts]), np.concatenate([p for _, p in parts])) if parts else NO_HITS


def expand_ranges(queries: Integers, first: Integers, behind: Integers) -> tuple[Integers, Integers]:
    """Expand the ranges [first, behind) of queries: each query repeated, and every position of its range."""
    counts = np.maximum(behind - first, 0)
    # the offset that turns a running number into a position of its range
    starts = np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(queries, counts), starts + np.arange(int(counts.sum()))


def sort_run(keys: KeyBits, places: Places) -> MemoryRun:
    order = keys.order()
    return MemoryRun(keys.take(order), places[order])
