"""Merge sorted runs without their deleted rows.

Large runs merge file to file, one range of keys at a time: memory use does not grow with them.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from cdc.columns.arrays import Mask
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.sinks.lake.index.run_files import FileRun, write_run
from cdc.sinks.lake.index.sorted_runs import IsLive, MemoryRun, Places, SortedRun, sort_run

MAX_MEMORY_ENTRIES: Final = 500_000
"""Runs with more entries in total, 24 bytes each, merge file to file."""
RANGE_ENTRIES: Final = 200_000
"""Entries of a step of a merge, about; those with one upper half stay together, however many they are."""


def merge_runs(runs: Sequence[SortedRun], live: IsLive, folder: Path) -> SortedRun:
    """Merge runs without deleted rows, in `folder` when they are large; raises DamagedRunError."""
    if sum(map(len, runs)) <= MAX_MEMORY_ENTRIES:
        return _merge([run.inside(None, None) for run in runs], live)
    return write_run((_merge(part, live) for part in _ranges(runs)), folder)


def sort_parts(parts: Iterable[tuple[KeyBits, Places]], folder: Path) -> SortedRun:
    """Sort entries that come in parts, each by itself, and merge them in `folder`: what they take is that of a part.

    A compacted file of two million rows would take 120 MiB if it were sorted at once.
    """
    runs = list[FileRun]()
    try:
        for keys, places in parts:
            runs.append(write_run([sort_run(keys, places)], folder))
        return merge_runs(runs, _every_place, folder)
    finally:
        for run in runs:
            (folder / run.name).unlink(missing_ok=True)


def _every_place(places: Places) -> Mask:
    return np.ones(len(places), np.bool_)


def write_to_file(run: SortedRun, folder: Path) -> SortedRun:
    """Write a run to a file in `folder`, unless it is in one."""
    return write_run([run], folder) if isinstance(run, MemoryRun) else run


def _merge(runs: Sequence[MemoryRun], live: IsLive) -> MemoryRun:
    parts = [(run, live(run.places)) for run in runs]
    keys = concat_keys([run.keys.take(mask) for run, mask in parts])
    return sort_run(keys, np.concatenate([run.places[mask] for run, mask in parts]))


def _ranges(runs: Sequence[SortedRun]) -> Iterator[list[MemoryRun]]:
    """Yield all runs by ranges of the keys' upper halves; equal halves share a range."""
    # bounds of all runs, not just the largest: key ranges of a table's files often do not overlap
    every = max(RANGE_ENTRIES // len(runs), 1)
    bounds = np.unique(np.concatenate([run.bounds(every) for run in runs]))
    for since, until in zip([None, *bounds], [*bounds, None], strict=True):
        yield [run.inside(since, until) for run in runs]
