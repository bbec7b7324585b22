"""Sorted runs of keys and the places of their rows: in memory while they are small, else mapped from a file.

Large runs are merged a range of keys at a time, from file to file: what that takes of memory does not grow with them.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdc.columns.arrays import Integers, Mask
from cdc.columns.key_bits import KeyBits, Words, joined

Places = npt.NDArray[np.uint64]
"""File number and row, 32 bits each."""

Live = Callable[[Places], Mask]
"""Which rows are still in the table."""

ROW_BITS: Final = np.uint64(32)
_ROW_MASK: Final = np.uint64(0xFFFFFFFF)
_WORDS: Final = 3
_WORD_BYTES: Final = 8
MERGED_IN_MEMORY: Final = 4_000_000
"""Runs of more entries together, 24 bytes each, are merged from file to file."""
RANGE_ENTRIES: Final = 500_000
"""At most so many entries of each run are merged at a time."""


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


@dataclass(frozen=True, slots=True)
class Run:
    """Entries in the order of their keys, in memory or mapped from the file `name`, which has room for `room`."""

    keys: KeyBits
    places: Places
    name: str | None = None
    room: int = 0

    def __len__(self) -> int:
        return len(self.places)

    def find(self, keys: KeyBits) -> Hits:
        """The entries of these keys; quickest when the keys are in order."""
        at = np.searchsorted(self.keys.high, keys.high)
        asked = np.arange(len(keys))
        found: list[tuple[Integers, Places]] = []
        # entries with one upper half stand side by side, and each turn looks at the next of them: few turns, as only
        # a key's dead rows and hardly any others share a half (`cdc.columns.key_bits`)
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
            asked, at = _spread(asked, at, np.searchsorted(self.keys.high, keys.high[asked], "right"))
            match = self.keys.low[at] == keys.low[asked]
            found.append((asked[match], self.places[at[match]]))
        return Hits(np.concatenate([a for a, _ in found]), np.concatenate([p for _, p in found])) if found else NO_HITS

    def between(self, start: int, stop: int) -> "Run":
        """The entries at the places start ≤ place < stop."""
        return Run(KeyBits(self.keys.high[start:stop], self.keys.low[start:stop]), self.places[start:stop])


def _spread(asked: Integers, first: Integers, behind: Integers) -> tuple[Integers, Integers]:
    """Every place from `first` up to `behind` of each that asked, with who asked."""
    counts = np.maximum(behind - first, 0)
    starts = np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(asked, counts), starts + np.arange(int(counts.sum()))


def sorted_run(keys: KeyBits, places: Places) -> Run:
    """Entries in any order as a run in memory."""
    order = keys.order()
    return Run(keys.take(order), places[order])


def merged(runs: Sequence[Run], live: Live, folder: Path) -> Run:
    """Runs as one, without rows that are gone; in `folder` when they are large."""
    entries = sum(map(len, runs))
    if entries <= MERGED_IN_MEMORY:
        return _merged(runs, live)
    return _on_disk((_merged(each, live) for each in _ranges(runs)), entries, folder)


def written(run: Run, folder: Path) -> Run:
    """The run, mapped from a file in `folder`, on the disk."""
    return run if run.name else _on_disk([run], len(run), folder)


def mapped(folder: Path, name: str, entries: int, room: int) -> Run:
    """The run of so many entries in a file with room for `room`; raises ValueError when the file is damaged."""
    if not room:
        return Run(KeyBits(np.empty(0, np.uint64), np.empty(0, np.uint64)), np.empty(0, np.uint64), name)
    words: Words = np.memmap(folder / name, np.uint64, "r", shape=(_WORDS, room))
    if (folder / name).stat().st_size != _WORDS * room * _WORD_BYTES or entries > room:
        raise ValueError(f"{folder / name} is damaged")
    high, low, places = (np.asarray(word[:entries]) for word in words)
    return Run(KeyBits(high, low), places, name, room)


def put(path: Path, parts: Iterable[tuple[int, bytes]], size: int | None = None) -> None:
    """Replace the file by parts, each at its offset, whole and on the disk: a crash leaves no empty file behind."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("xb") as file:
        for offset, content in parts:
            file.seek(offset)
            file.write(content)
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    # the folder is not synced: should an older manifest come back after a crash, what it lacks is read again
    temporary.replace(path)


def _merged(runs: Sequence[Run], live: Live) -> Run:
    parts = [(run, live(run.places)) for run in runs]
    keys = joined([run.keys.take(mask) for run, mask in parts])
    return sorted_run(keys, np.concatenate([run.places[mask] for run, mask in parts]))


def _ranges(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """All of the runs, range by range of their keys' upper halves: what shares one is in one range."""
    # of all runs, not only of the largest: a table's files often have ranges of keys that do not meet
    bounds = np.unique(np.concatenate([run.keys.high[RANGE_ENTRIES::RANGE_ENTRIES] for run in runs]))
    cuts = [[0, *np.searchsorted(run.keys.high, bounds).tolist(), len(run)] for run in runs]
    for number in range(len(bounds) + 1):
        yield [run.between(cut[number], cut[number + 1]) for run, cut in zip(runs, cuts, strict=True)]


def _on_disk(parts: Iterable[Run], room: int, folder: Path) -> Run:
    """Runs whose keys follow each other as one in a file: each word of all entries stands together, with the room
    behind it that rows took which are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    name, entries = f"run-{uuid.uuid4().hex}", 0

    def placed() -> Iterator[tuple[int, bytes]]:
        nonlocal entries
        for part in parts:
            for word, values in enumerate((part.keys.high, part.keys.low, part.places)):
                yield (word * room + entries) * _WORD_BYTES, values.tobytes()
            entries += len(part)

    put(folder / name, placed(), _WORDS * room * _WORD_BYTES)
    return mapped(folder, name, entries, room)
