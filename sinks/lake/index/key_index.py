"""An index from 128-bit key fingerprints to data file and row, so that a batch needs no join.

It consists of sorted runs that are merged as in an LSM tree (O'Neil et al., "The Log-Structured Merge-Tree", 1996). An
entry describes an immutable file and never becomes wrong; the file's deletion vector says whether the row still lives.
So the index is a cache: it may lack files, whose keys are then read, and it decides nothing.

It must not lack rows of a file that it knows, nor invent any: all data from disk is verified before use
(`run_files.py`). Merges drop deleted rows, which is right for one history of the table only. So a saved index names a
version and its commit's id.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.core.fail_points import reach
from cdc.sinks.lake.index import run_merge
from cdc.sinks.lake.index.run_files import DamagedRunError, make_private_folder, open_run, replace_file
from cdc.sinks.lake.index.run_merge import merge_runs, write_to_file
from cdc.sinks.lake.index.sorted_runs import (
    NO_HITS,
    ROW_BITS,
    IndexHits,
    IsLive,
    MemoryRun,
    Places,
    SortedRun,
    sort_run,
)

FORMAT: Final = 3
MANIFEST: Final = "index.json"
GROWTH: Final = 4
"""A run merges into the one before unless that is more than this many times larger."""
MAX_MEMORY_ENTRIES: Final = 100_000
"""Smaller runs are saved only on close; after a crash their files are read again."""


_Entries = tuple[KeyBits, Places]
"""Keys and their places, in no order."""


@dataclass(frozen=True, slots=True)
class VersionId:
    """A table version and its commit's id; together they identify the history before it."""

    version: int
    commit: str


class KeyIndex:
    """The index of one table, kept in a folder between runs of the process.

    `find` and merges raise DamagedRunError or OSError when a file differs from what was written: discard the index
    then. `discard_reason`: why a saved index was not used, when that is unusual.
    """

    def __init__(self, folder: Path, table_id: str, lost: str | None = None) -> None:
        self._folder = folder
        self._table_id = table_id
        self.discard_reason = lost
        self._runs: list[SortedRun] = []
        self._saved: frozenset[str] = frozenset()
        """Names of the runs that the saved index has."""
        self._numbers: dict[str, int] = {}
        self._next_number = 0

    @classmethod
    def open(cls, folder: Path, table_id: str, is_past: Callable[[VersionId], bool]) -> Self:
        """Open the saved index. Returns an empty one when there is none, or it is damaged, another table's, or from a
        version outside the table's history."""
        index = cls(folder, table_id)
        try:
            manifest = _read_manifest(folder)
            if manifest is None or manifest["format"] != FORMAT or manifest["table"] != table_id:
                return index
            if not is_past(VersionId(**manifest["past"])):
                return cls(folder, table_id, "is of another past of the table")
            index._runs = [open_run(folder, run["name"], run["entries"]) for run in manifest["runs"]]
            index._saved = frozenset(run["name"] for run in manifest["runs"])
            index._numbers = dict(manifest["files"])
            index._next_number = manifest["next_number"]
        except (DamagedRunError, OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(folder, table_id, "was damaged")
        return index

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def files(self) -> Collection[str]:
        """The data files whose keys are indexed."""
        return self._numbers.keys()

    def paths(self) -> dict[int, str]:
        """The data files by number."""
        return {number: path for path, number in self._numbers.items()}

    def find(self, keys: KeyBits) -> IndexHits:
        """Find all entries of these keys, deleted rows included."""
        # sorted lookups touch each block of a run once
        order = keys.order()
        sorted_keys = keys.take(order)
        parts = [run.find(sorted_keys) for run in self._runs]
        if not parts:
            return NO_HITS
        queries = np.concatenate([hits.queries for hits in parts])
        return IndexHits(order[queries], np.concatenate([hits.places for hits in parts]))

    def estimate(self, keys: KeyBits) -> int:
        """How many entries the keys that have very many have, at least about; costs no look at the entries."""
        return sum(run.estimate(keys) for run in self._runs)

    def add(self, files: Mapping[str, KeyBits], live: IsLive) -> None:
        """Add the keys of data files of the table, in row order; `live` lets merges drop deleted rows."""
        # only files that the table has by now: of others `live` calls all rows deleted, and a merge drops them for good
        self.add_many([files], live)

    def add_many(self, groups: Iterable[Mapping[str, KeyBits]], live: IsLive) -> None:
        """Add groups of files; all but the last two groups wait on disk. See `add`.

        If a group fails, the groups before it stay added.
        """
        newest = 0
        for files in groups:
            # write the previous group before reading the next one: memory holds one group
            if newest:
                self._runs[-1] = write_to_file(self._runs[-1], self._folder)
            # number and entries together: a numbered file without entries would pass for one without these keys
            if len(run := self._to_run(files)):
                self._runs.append(run)
                newest += 1
        self._merge(newest, live)

    def _to_run(self, files: Mapping[str, KeyBits]) -> SortedRun:
        new = [path for path in files if path not in self._numbers]
        # never reuse a number: entries of dropped files stay until a merge removes them
        numbers = {**self._numbers, **{path: at for at, path in enumerate(new, self._next_number)}}
        parts = _split(files, numbers)
        if sum(map(len, files.values())) <= run_merge.MAX_MEMORY_ENTRIES:
            run: SortedRun = sort_run(*_join([*parts]))
        else:
            run = run_merge.sort_parts(parts, self._folder)
        self._numbers, self._next_number = numbers, self._next_number + len(new)
        return run

    def _merge(self, newest: int, live: IsLive) -> None:
        """Merge the `newest` runs, and earlier ones while these are not much larger."""
        # runs are ordered from old and large to new and small
        first = len(self._runs) - newest
        entries = sum(map(len, self._runs[first:]))
        while first > 0 and len(self._runs[first - 1]) <= GROWTH * entries:
            first -= 1
            entries += len(self._runs[first])
        if len(self._runs) - first > 1:
            merged = self._runs[first:]
            self._runs[first:] = [merge_runs(merged, live, self._folder)]
            # an index that is saved rarely would leave all that it ever was on the disk
            for name in {run.name for run in merged if run.name} - self._saved:
                (self._folder / name).unlink(missing_ok=True)

    def forget(self, paths: Collection[str]) -> None:
        """Drop files that left the table; their entries go with the next merges."""
        for path in paths:
            self._numbers.pop(path, None)

    def save(self, past: VersionId, *, everything: bool) -> None:
        """Save the large runs, or `everything`, as of this version; a crash leaves the old index or the new one."""
        make_private_folder(self._folder)
        # runs, then the manifest that names them, then delete old runs. A kill in between leaves the old or the new
        # index; the next call deletes runs that no manifest names
        runs = [
            write_to_file(run, self._folder) if everything or len(run) > MAX_MEMORY_ENTRIES else run
            for run in self._runs
        ]
        self._runs = runs
        manifest = {
            "format": FORMAT,
            "table": self._table_id,
            "past": {"version": past.version, "commit": past.commit},
            "next_number": self._next_number,
            "runs": [{"name": run.name, "entries": len(run)} for run in runs if run.name],
            "files": self._files_on_disk(),
        }
        text = json.dumps(manifest).encode()
        reach("index.runs.written")
        replace_file(self._folder / MANIFEST, [_digest(text), b"\n", text])
        reach("index.manifest.written")
        self._saved = frozenset(run.name for run in runs if run.name)
        # hidden files, too: a killed process leaves its temporary ones
        for file in (*self._folder.glob("run-*"), *self._folder.glob(".*")):
            if file.name not in self._saved:
                file.unlink(missing_ok=True)

    def _files_on_disk(self) -> dict[str, int]:
        """The files covered by saved runs; the next process reads the others again."""
        # unsaved runs: their files must count as unknown
        in_memory = [np.unique(run.places >> ROW_BITS) for run in self._runs if isinstance(run, MemoryRun)]
        lost = set(np.concatenate(in_memory).tolist()) if in_memory else set()
        return {path: number for path, number in self._numbers.items() if number not in lost}


def _split(files: Mapping[str, KeyBits], numbers: Mapping[str, int]) -> Iterator[_Entries]:
    """The entries of files in parts of about `run_merge.RANGE_ENTRIES`."""
    held, size, most = list[_Entries](), 0, run_merge.RANGE_ENTRIES
    for path, keys in files.items():
        for at in range(0, len(keys), most):
            part = KeyBits(keys.high[at : at + most], keys.low[at : at + most])
            # unsigned on both sides: numpy turns uint64 and int64 into floats, which round
            first = (np.uint64(numbers[path]) << ROW_BITS) + np.uint64(at)
            held.append((part, first + np.arange(len(part), dtype=np.uint64)))
            size += len(part)
            if size >= most:
                yield _join(held)
                held, size = [], 0
    if held:
        yield _join(held)


def _join(parts: Sequence[_Entries]) -> _Entries:
    return concat_keys([keys for keys, _ in parts]), np.concatenate([np.empty(0, np.uint64), *(at for _, at in parts)])


def _read_manifest(folder: Path) -> Mapping[str, Any] | None:
    """Read the saved manifest; None when there is none. Raises ValueError when it is damaged."""
    try:
        # the first line is the digest of the rest
        digest, _, text = (folder / MANIFEST).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if digest != _digest(text):
        raise ValueError("the manifest is damaged")
    manifest: Mapping[str, Any] = json.loads(text)
    return manifest


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).hexdigest().encode()
