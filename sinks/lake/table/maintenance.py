"""Keeps a table as quick to read as on its first day: small files together, dead rows out, the past forgotten in time.

Small files are put together as an LSM tree does with its runs, so that a row is rewritten a handful of times however
many batches there are: of too many, the smallest become one, each with those that are smaller and together as large
(RocksDB's "universal compaction").
"""

import time
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from sinks.lake.delta.checkpoint import due_checkpoint, write_checkpoint
from sinks.lake.delta.retention import Retention, forget, sweep
from sinks.lake.delta.snapshot import DataFile
from sinks.lake.table.compact import rewritten
from sinks.lake.table.writer import LiveTable

KEPT: Final = 16
"""So many small files are left alone."""
LARGEST_BYTES: Final = 32 * 1024 * 1024
"""Files of this size and above stay as they are, but for their dead rows; a large table's copy has such."""
MADE_BYTES: Final = 128 * 1024 * 1024
"""What is put together becomes files of at most this size, as long as none was larger."""
MOST_DEAD: Final = 0.25
"""A file with a larger part of dead rows is written anew: until then they are read, and every commit that touches it
writes its whole vector, which from a sixteenth on grows no further. At 500 random updates a second in a million rows,
0.07 would write 4.2 times the updated rows by this alone, 0.25 writes 0.8 times."""
TINY_BYTES: Final = 256 * 1024
"""Dead rows in smaller files cost next to nothing: they go when the files are put together with others."""
SWEEP_SECONDS: Final = 86_400.0


def maintain(live: LiveTable, retention: Retention) -> None:
    """Put files together, write a checkpoint, forget what is older than the retention, and save the index."""
    for group in to_rewrite(list(live.state.files.values())):
        rewritten(live, group)
    with live.lock:
        # a commit in between would be in one of the two only: the state, and what is no longer in it
        due = due_checkpoint(live.log, retention.horizon_ms)
    # in this order: commits go only where a checkpoint stands for them
    if due is not None:
        write_checkpoint(live.log, due)
    forget(live.log, retention)
    with live.lock:
        live.save_index(everything=False)
    if time.monotonic() - live.swept > SWEEP_SECONDS:
        live.swept = time.monotonic()
        sweep(live.log, retention)


def to_rewrite(files: Iterable[DataFile]) -> list[list[str]]:
    """Groups of files that are to become one file each: those with many dead rows, and the smallest of too many."""
    dead, small = list[DataFile](), list[DataFile]()
    for file in files:
        if file.size > TINY_BYTES and file.rows - file.live_rows > MOST_DEAD * file.rows:
            dead.append(file)
        elif file.size < LARGEST_BYTES:
            small.append(file)
    together = _smallest(sorted(small, key=attrgetter("size"))) if len(small) > KEPT else []
    return [[file.path for file in group] for group in (*([each] for each in dead), together) if group]


def _smallest(small: Sequence[DataFile]) -> Sequence[DataFile]:
    """Of too many files, in ascending order, those that become one: none that is larger than all others together.

    So a row's file has doubled at least whenever the row is rewritten, and what is far larger waits for more.
    """
    size, best = 0, small[:0]
    for count, file in enumerate(small, 1):
        if size + file.size > MADE_BYTES:
            break
        if count > 1 and file.size <= size:
            best = small[:count]
        elif best and len(small) - len(best) < KEPT:
            break
        size += file.size
    return best
