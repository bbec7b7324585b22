"""Where the rows of a key lie: an index from 128 bits of key to data file and row, so that a batch needs no join.

Sorted runs, merged like those of an LSM tree (O'Neil et al., "The Log-Structured Merge-Tree", 1996). An entry is a fact
about an immutable file and never becomes wrong: whether the row is still there is asked of the file's deletion vector,
which is the log's. So the index is a cache: it may lack files, which are then read, but it decides nothing.
"""

import json
import os
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from cdc.columns.key_bits import KeyBits, Words, joined

Places = npt.NDArray[np.uint64]
"""File number and row, 32 bits each."""

Live = Callable[[Places], npt.NDArray[np.bool_]]
"""Which rows are still in the table."""

FORMAT: Final = 1
MANIFEST: Final = "index.json"
GROWTH: Final = 4
"""A run is merged into the one before it once that is not this much larger."""
KEPT_IN_MEMORY: Final = 200_000
"""Smaller runs are written down only at the end: after a crash their files are read again."""
_ROW_BITS: Final = np.uint64(32)
_ROW_MASK: Final = np.uint64(0xFFFFFFFF)
_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that were found, dead ones among them: the key's place in the question, the file's number, the row."""

    asked: npt.NDArray[np.int64]
    places: Places

    @property
    def files(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = (self.places >> _ROW_BITS).astype(np.int64)
        return found

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = (self.places & _ROW_MASK).astype(np.int64)
        return found

    def take(self, at: npt.NDArray[Any]) -> "Hits":
        return Hits(self.asked[at], self.places[at])


@dataclass(frozen=True, slots=True)
class Run:
    """Entries in the order of their keys, in memory or mapped from the file `name`."""

    keys: KeyBits
    places: Places
    name: str | None = None

    def __len__(self) -> int:
        return len(self.places)

    def find(self, keys: KeyBits) -> Hits:
        """The entries of these keys; quickest when the keys are in order."""
        at = np.searchsorted(self.keys.high, keys.high)
        asked = np.arange(len(keys))
        found: list[tuple[npt.NDArray[np.int64], Places]] = []
        # entries with one upper half stand side by side, and each turn looks at the next of them: few turns, as only
        # a key's dead rows and hardly any others share a half (`cdc.columns.key_bits`)
        while len(asked):
            inside = at < len(self)
            asked, at = asked[inside], at[inside]
            same = self.keys.high[at] == keys.high[asked]
            asked, at = asked[same], at[same]
            match = self.keys.low[at] == keys.low[asked]
            found.append((asked[match], self.places[at[match]]))
            at = at + 1
        return Hits(np.concatenate([a for a, _ in found]), np.concatenate([p for _, p in found])) if found else _NO_HITS


_NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.uint64))


class KeyIndex:
    """The index of one table, kept in a folder of its own between runs of the process."""

    def __init__(self, folder: Path, table_id: str) -> None:
        self._folder = folder
        self._table_id = table_id
        self._runs: list[Run] = []
        self._numbers: dict[str, int] = {}
        self._next_number = 0

    @classmethod
    def open(cls, folder: Path, table_id: str) -> Self:
        """The index as it was saved; an empty one when there is none, or it is damaged or another table's."""
        index = cls(folder, table_id)
        try:
            index._load(json.loads((folder / MANIFEST).read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(folder, table_id)
        return index

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def files(self) -> Collection[str]:
        """The data files whose keys are in the index."""
        return self._numbers.keys()

    def paths(self) -> dict[int, str]:
        """The data files by their numbers."""
        return {number: path for path, number in self._numbers.items()}

    def find(self, keys: KeyBits) -> Hits:
        """All entries of these keys, dead rows among them."""
        order = keys.order()
        sorted_keys = keys.take(order)
        found = [run.find(sorted_keys) for run in self._runs]
        if not found:
            return _NO_HITS
        asked = np.concatenate([hits.asked for hits in found])
        return Hits(order[asked], np.concatenate([hits.places for hits in found]))

    def add(self, files: Mapping[str, KeyBits], live: Live) -> None:
        """Take in the keys of data files, in the order of their rows; `live` lets merges forget rows that are gone.

        To `live`, these files have to be in the table already: a merge would forget their rows for good.
        """
        places = []
        for path, keys in files.items():
            # no number is given again: entries of files that are gone stay until some merge drops them
            number = self._numbers.setdefault(path, self._next_number)
            self._next_number = max(self._next_number, number + 1)
            # unsigned on both sides: of uint64 and int64 numpy makes floats, which round places
            places.append((np.uint64(number) << _ROW_BITS) + np.arange(len(keys), dtype=np.uint64))
        if not places:
            return
        self._runs.append(_sorted(joined(list(files.values())), np.concatenate(places)))
        while len(self._runs) > 1 and len(self._runs[-2]) <= GROWTH * len(self._runs[-1]):
            newer, older = self._runs.pop(), self._runs.pop()
            self._runs.append(_merged(older, newer, live))

    def forget(self, paths: Collection[str]) -> None:
        """These files are no longer in the table; what the index has of them goes with the next merges."""
        for path in paths:
            self._numbers.pop(path, None)

    def save(self, *, everything: bool) -> None:
        """Write down what is large, or everything; a reader finds the old state or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # runs, the manifest that names them, and only then are old runs removed: killed in between, the old state or
        # the new one is there, and runs that no manifest names go with the next call
        kept = [self._written(run) if everything or len(run) > KEPT_IN_MEMORY else run for run in self._runs]
        self._runs = kept
        manifest = {
            "format": FORMAT,
            "table": self._table_id,
            "next_number": self._next_number,
            "runs": [{"name": run.name, "entries": len(run)} for run in kept if run.name],
            "files": self._saved_files(),
        }
        _put(self._folder / MANIFEST, json.dumps(manifest).encode())
        names = {run.name for run in kept}
        # hidden ones as well: a killed process leaves what it had not put in place
        for file in (*self._folder.glob("run-*"), *self._folder.glob(".*")):
            if file.name not in names:
                file.unlink(missing_ok=True)

    def _saved_files(self) -> dict[str, int]:
        """The files that the saved runs know: those of runs in memory are read again."""
        in_memory = [np.unique(run.places >> _ROW_BITS) for run in self._runs if not run.name]
        lost = set(np.concatenate(in_memory).tolist()) if in_memory else set()
        return {path: number for path, number in self._numbers.items() if number not in lost}

    def _written(self, run: Run) -> Run:
        if run.name:
            return run
        name = f"run-{uuid.uuid4().hex}"
        _put(self._folder / name, b"".join(part.tobytes() for part in (run.keys.high, run.keys.low, run.places)))
        return _mapped(self._folder / name, len(run))

    def _load(self, manifest: Mapping[str, Any]) -> None:
        if manifest["format"] != FORMAT or manifest["table"] != self._table_id:
            raise ValueError("another table's index, or another version's")
        self._runs = [_mapped(self._folder / run["name"], run["entries"]) for run in manifest["runs"]]
        self._numbers = dict(manifest["files"])
        self._next_number = manifest["next_number"]


def _sorted(keys: KeyBits, places: Places) -> Run:
    order = keys.order()
    return Run(keys.take(order), places[order])


def _merged(older: Run, newer: Run, live: Live) -> Run:
    """Both runs as one, without rows that are gone."""
    parts = [(run, live(run.places)) for run in (older, newer)]
    keys = joined([run.keys.take(mask) for run, mask in parts])
    return _sorted(keys, np.concatenate([run.places[mask] for run, mask in parts]))


def _mapped(path: Path, entries: int) -> Run:
    if not entries:
        return Run(KeyBits(np.empty(0, np.uint64), np.empty(0, np.uint64)), np.empty(0, np.uint64), path.name)
    words: Words = np.memmap(path, np.uint64, "r", shape=(_WORDS, entries))
    if path.stat().st_size != entries * _WORDS * words.itemsize:
        raise ValueError(f"{path} is damaged")
    return Run(KeyBits(np.asarray(words[0]), np.asarray(words[1])), np.asarray(words[2]), path.name)


def _put(path: Path, content: bytes) -> None:
    """Replace the file whole, and on the disk: a manifest never names a run that a crash has emptied."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    # the folder is not synced: should an older manifest come back after a crash, what it lacks is read again
    temporary.replace(path)
