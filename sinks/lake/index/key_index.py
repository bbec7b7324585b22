"""Where the rows of a key lie: an index from 128 bits of key to data file and row, so that a batch needs no join.

Sorted runs, merged like those of an LSM tree (O'Neil et al., "The Log-Structured Merge-Tree", 1996). An entry is a fact
about an immutable file and never becomes wrong: whether the row is still there is asked of the file's deletion vector,
which is the log's. So the index is a cache: it may lack files, which are then read, but it decides nothing.

It must not lack rows of a file that it knows, nor name others: everything that lies on the disk is checked before it is
used (`run_files.py`). Merges drop rows that are gone, which holds for one past of the table: so a saved index names a
version of it, with the id of its commit.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from sinks.lake.index.run_files import DamagedRunError, open_run, put
from sinks.lake.index.run_merge import merged, written
from sinks.lake.index.sorted_runs import NO_HITS, ROW_BITS, Hits, Live, Run, SortedRun, sorted_run

FORMAT: Final = 3
MANIFEST: Final = "index.json"
GROWTH: Final = 4
"""Runs are merged into the one before them once that is not this much larger."""
KEPT_IN_MEMORY: Final = 200_000
"""Smaller runs are written down only at the end: after a crash their files are read again."""


@dataclass(frozen=True, slots=True)
class Past:
    """A table's version, and the id of the commit that made it: whoever knows both knows what came before."""

    version: int
    commit: str


class KeyIndex:
    """The index of one table, kept in a folder of its own between runs of the process.

    `find`, and whatever merges, raise DamagedRunError or OSError when a file does not hold what was written: such an
    index is of no use any more. `lost`: why one that was saved is not used, where that is not as it should be.
    """

    def __init__(self, folder: Path, table_id: str, lost: str | None = None) -> None:
        self._folder = folder
        self._table_id = table_id
        self.lost = lost
        self._runs: list[SortedRun] = []
        self._numbers: dict[str, int] = {}
        self._next_number = 0

    @classmethod
    def open(cls, folder: Path, table_id: str, is_past: Callable[[Past], bool]) -> Self:
        """The index as it was saved; an empty one when there is none, it is damaged, another table's, or one of a
        version that is not in the table's past."""
        index = cls(folder, table_id)
        try:
            manifest = _manifest(folder)
            if manifest is None or manifest["format"] != FORMAT or manifest["table"] != table_id:
                return index
            if not is_past(Past(**manifest["past"])):
                return cls(folder, table_id, "is of another past of the table")
            index._load(manifest)
        except (DamagedRunError, OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(folder, table_id, "was damaged")
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
            return NO_HITS
        asked = np.concatenate([hits.asked for hits in found])
        return Hits(order[asked], np.concatenate([hits.places for hits in found]))

    def add(self, files: Mapping[str, KeyBits], live: Live) -> None:
        """Take in the keys of data files, in the order of their rows; `live` lets merges forget rows that are gone.

        To `live`, these files have to be in the table already: a merge would forget their rows for good.
        """
        self.add_many([files], live)

    def add_many(self, groups: Iterable[Mapping[str, KeyBits]], live: Live) -> None:
        """Take in many files, of which the groups before the last two wait on the disk; see `add`.

        What ends it, a group that cannot be read for instance, leaves those before taken in.
        """
        newest = 0
        for files in groups:
            if newest:
                self._runs[-1] = written(self._runs[-1], self._folder)
            # at once: a file that has a number and no entries would pass for one without the keys that are asked for
            if len(run := self._run(files)):
                self._runs.append(run)
                newest += 1
        self._merge(newest, live)

    def _run(self, files: Mapping[str, KeyBits]) -> Run:
        places = [np.empty(0, np.uint64)]
        for path, keys in files.items():
            # no number is given again: entries of files that are gone stay until some merge drops them
            number = self._numbers.setdefault(path, self._next_number)
            self._next_number = max(self._next_number, number + 1)
            # unsigned on both sides: of uint64 and int64 numpy makes floats, which round places
            places.append((np.uint64(number) << ROW_BITS) + np.arange(len(keys), dtype=np.uint64))
        return sorted_run(concat_keys(list(files.values())), np.concatenate(places))

    def _merge(self, newest: int, live: Live) -> None:
        """Merge so many of the newest runs, and with them those before, as long as these are not much larger."""
        first = len(self._runs) - newest
        entries = sum(map(len, self._runs[first:]))
        while first > 0 and len(self._runs[first - 1]) <= GROWTH * entries:
            first -= 1
            entries += len(self._runs[first])
        if len(self._runs) - first > 1:
            self._runs[first:] = [merged(self._runs[first:], live, self._folder)]

    def forget(self, paths: Collection[str]) -> None:
        """These files are no longer in the table; what the index has of them goes with the next merges."""
        for path in paths:
            self._numbers.pop(path, None)

    def save(self, past: Past, *, everything: bool) -> None:
        """Write down what is large, or everything, as of this version; a reader finds the old state or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # runs, the manifest that names them, and only then are old runs removed: killed in between, the old state or
        # the new one is there, and runs that no manifest names go with the next call
        kept = [written(run, self._folder) if everything or len(run) > KEPT_IN_MEMORY else run for run in self._runs]
        self._runs = kept
        manifest = {
            "format": FORMAT,
            "table": self._table_id,
            "past": {"version": past.version, "commit": past.commit},
            "next_number": self._next_number,
            "runs": [{"name": run.name, "entries": len(run)} for run in kept if run.name],
            "files": self._saved_files(),
        }
        text = json.dumps(manifest).encode()
        put(self._folder / MANIFEST, [_digest(text), b"\n", text])
        names = {run.name for run in kept}
        # hidden ones as well: a killed process leaves what it had not put in place
        for file in (*self._folder.glob("run-*"), *self._folder.glob(".*")):
            if file.name not in names:
                file.unlink(missing_ok=True)

    def _saved_files(self) -> dict[str, int]:
        """The files that the saved runs know: those of runs in memory are read again."""
        in_memory = [np.unique(run.places >> ROW_BITS) for run in self._runs if isinstance(run, Run)]
        lost = set(np.concatenate(in_memory).tolist()) if in_memory else set()
        return {path: number for path, number in self._numbers.items() if number not in lost}

    def _load(self, manifest: Mapping[str, Any]) -> None:
        self._runs = [open_run(self._folder, run["name"], run["entries"]) for run in manifest["runs"]]
        self._numbers = dict(manifest["files"])
        self._next_number = manifest["next_number"]


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    """What was saved last; None where nothing was. Raises ValueError when it is damaged."""
    try:
        digest, line, text = (folder / MANIFEST).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if not line and digest.startswith(b'{"format": 2'):
        # an older version of ours had no digest
        return None
    if digest != _digest(text):
        raise ValueError("the manifest is damaged")
    found: Mapping[str, Any] = json.loads(text)
    return found


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).hexdigest().encode()
