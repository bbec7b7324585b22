"""Runs merged, without rows that are gone.

Large ones a range of keys at a time, from file to file: what that takes of memory does not grow with them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from cdc.columns.rows.key_fingerprints import concat_keys
from sinks.lake.index.run_files import write_run
from sinks.lake.index.sorted_runs import Live, Run, SortedRun, sorted_run

MERGED_IN_MEMORY: Final = 4_000_000
"""Runs of more entries together, 24 bytes each, are merged from file to file."""
RANGE_ENTRIES: Final = 500_000
"""At most so many entries of each run are merged at a time."""


def merged(runs: Sequence[SortedRun], live: Live, folder: Path) -> SortedRun:
    """Runs as one, without rows that are gone; in `folder` when they are large. Raises DamagedRunError."""
    if sum(map(len, runs)) <= MERGED_IN_MEMORY:
        return _merged([run.inside(None, None) for run in runs], live)
    return write_run((_merged(each, live) for each in _ranges(runs)), folder)


def written(run: SortedRun, folder: Path) -> SortedRun:
    """The run, in a file in `folder`, on the disk."""
    return write_run([run], folder) if isinstance(run, Run) else run


def _merged(runs: Sequence[Run], live: Live) -> Run:
    parts = [(run, live(run.places)) for run in runs]
    keys = concat_keys([run.keys.take(mask) for run, mask in parts])
    return sorted_run(keys, np.concatenate([run.places[mask] for run, mask in parts]))


def _ranges(runs: Sequence[SortedRun]) -> Iterator[list[Run]]:
    """All of the runs, range by range of their keys' upper halves: what shares one is in one range."""
    # of all runs, not only of the largest: a table's files often have ranges of keys that do not meet
    bounds = np.unique(np.concatenate([run.bounds(RANGE_ENTRIES) for run in runs]))
    for since, until in zip([None, *bounds], [*bounds, None], strict=True):
        yield [run.inside(since, until) for run in runs]
