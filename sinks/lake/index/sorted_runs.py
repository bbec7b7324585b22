"""Sorted runs of keys and the places of their rows, in memory; `run_files.py` has those that lie in files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.key_fingerprints import KeyBits, Words

Places = npt.NDArray[np.uint64]
"""File number and row, 32 bits each."""

Live = Callable[[Places], Mask]
"""Which rows are still in the table."""

ROW_BITS: Final = np.uint64(32)
_ROW_MASK: Final = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that were found, dead ones among them: the key's place in the question, the file's number, the row."""

    asked: Integers
    places: Places

    @property
    def files(self) -> Integers:
        found: Integers = (self.places >> ROW_BITS).astype(np.int64)
        return found

    @property
    def rows(self) -> Integers:
        found: Integers = (self.places & _ROW_MASK).astype(np.int64)
        return found

    def take(self, at: npt.NDArray[Any]) -> "Hits":
        return Hits(self.asked[at], self.places[at])


FEW: Final = 8
"""So many entries of one upper half are looked at one by one, more of them all at once."""
NO_HITS: Final = Hits(np.empty(0, np.int64), np.empty(0, np.uint64))


class SortedRun(Protocol):
    """Entries in the order of their keys. `name`: the file that they lie in; None for those in memory."""

    @property
    def name(self) -> str | None: ...

    def __len__(self) -> int: ...

    def find(self, keys: KeyBits) -> Hits:
        """The entries of these keys, which are in order."""

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> "Run":
        """The entries whose upper halves are at least `since` and below `until`; None is no bound."""

    def bounds(self, every: int) -> Words:
        """Upper halves that part the run into pieces of about so many entries."""


@dataclass(frozen=True, slots=True)
class Run:
    """A `SortedRun` in memory."""

    keys: KeyBits
    places: Places

    @property
    def name(self) -> str | None:
        return None

    def __len__(self) -> int:
        return len(self.places)

    def find(self, keys: KeyBits) -> Hits:
        """The entries of these keys; quickest when the keys are in order."""
        at = np.searchsorted(self.keys.high, keys.high)
        asked = np.arange(len(keys))
        found: list[tuple[Integers, Places]] = []
        # entries with one upper half stand side by side, and each turn looks at the next of them: few turns, as only
        # a key's dead rows and hardly any others share a half (`cdc.columns.rows.key_fingerprints`)
        for _ in range(FEW):
            if not len(asked):
                break
            inside = at < len(self)
            asked, at = asked[inside], at[inside]
            same = self.keys.high[at] == keys.high[asked]
            asked, at = asked[same], at[same]
            match = self.keys.low[at] == keys.low[asked]
            found.append((asked[match], self.places[at[match]]))
            at = at + 1
        if len(asked):
            # rows without a key that are equal share both halves, a million of them perhaps
            asked, at = spread(asked, at, np.searchsorted(self.keys.high, keys.high[asked], "right"))
            match = self.keys.low[at] == keys.low[asked]
            found.append((asked[match], self.places[at[match]]))
        return together(found)

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> "Run":
        high = self.keys.high
        start = 0 if since is None else int(np.searchsorted(high, since))
        stop = len(self) if until is None else int(np.searchsorted(high, until))
        return Run(KeyBits(high[start:stop], self.keys.low[start:stop]), self.places[start:stop])

    def bounds(self, every: int) -> Words:
        return self.keys.high[every::every]


def together(found: Sequence[tuple[Integers, Places]]) -> Hits:
    """What was found in several looks."""
    return Hits(np.concatenate([a for a, _ in found]), np.concatenate([p for _, p in found])) if found else NO_HITS


def spread(asked: Integers, first: Integers, behind: Integers) -> tuple[Integers, Integers]:
    """Every place from `first` up to `behind` of each that asked, with who asked."""
    counts = np.maximum(behind - first, 0)
    starts = np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(asked, counts), starts + np.arange(int(counts.sum()))


def sorted_run(keys: KeyBits, places: Places) -> Run:
    """Entries in any order as a run in memory."""
    order = keys.order()
    return Run(keys.take(order), places[order])
