"""Keeps a table as quick to read as on its first day: small files together, dead rows out, the past forgotten in time.

Small files are put together as an LSM tree does with its runs, so that a row is rewritten a handful of times however
many batches there are: of too many, the smallest become one, each with those that are smaller and together as large
(RocksDB's "universal compaction").
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from sinks.lake.checkpoint import write_checkpoint
from sinks.lake.checkpoint_read import LOG, checkpoints_in
from sinks.lake.data_files import CHANGE_FOLDER
from sinks.lake.delta_log import DeltaLog, committed_ms, version_of
from sinks.lake.delta_state import Action, DataFile, now_ms, paths_of
from sinks.lake.live_table import LiveTable
from sinks.lake.rewrite import rewritten
from sinks.lake.storage import READS_AT_ONCE

KEPT: Final = 8
"""So many small files are left alone."""
LARGEST_BYTES: Final = 32 * 1024 * 1024
"""Files of this size and above stay as they are, but for their dead rows; a large table's copy has such."""
MADE_BYTES: Final = 128 * 1024 * 1024
"""What is put together becomes files of at most this size, as long as none was larger."""
MOST_DEAD: Final = 0.07
"""A file with a larger part of dead rows is written anew: every commit that touches it writes its whole vector."""
CHECKPOINT_EVERY: Final = 20
"""Commits that a reader has to open one by one behind the checkpoint, and those of a round of the upkeep."""
MANY_FILES, SELDOM = 1000, 5
"""A checkpoint names every file: of a table with more than so many, it is made so many times as seldom."""
HOUR_MS: Final = 3_600_000
SWEEP_SECONDS: Final = 86_400.0
_OURS: Final = re.compile(r"\.?(part-|copy-|cdc-|deletion_vector_)")
LEFT_HOURS: Final = 24
"""So old is a file that no commit names before it counts as left by a killed process, beyond the past that is kept."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a table's past is kept: what happened within so many hours, and all that leads on from a version."""

    hours: float
    since: int

    @property
    def horizon_ms(self) -> float:
        return now_ms() - self.hours * HOUR_MS


def maintain(live: LiveTable, retention: Retention) -> None:
    """Put files together, write a checkpoint, forget what is older than the retention, and save the index."""
    for group in to_rewrite(list(live.state.files.values())):
        rewritten(live, group)
    with live.lock:
        # in this order: commits go only where a checkpoint stands for them
        checkpointed(live.log)
        forget(live.log, retention)
        live.save_index(everything=False)
    if time.monotonic() - live.swept > SWEEP_SECONDS:
        live.swept = time.monotonic()
        sweep(live.log, retention)


def to_rewrite(files: Iterable[DataFile]) -> list[list[str]]:
    """Groups of files that are to become one file each: those with many dead rows, and the smallest of too many."""
    dead, small = list[DataFile](), list[DataFile]()
    for file in files:
        if file.rows - file.live_rows > MOST_DEAD * file.rows:
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


def checkpointed(log: DeltaLog) -> bool:
    """Write a checkpoint when enough commits have come since the last; says whether there was one to write."""
    often = CHECKPOINT_EVERY * (SELDOM if len(log.state.files) > MANY_FILES else 1)
    # one that is damaged keeps other readers from the table
    if log.state.version - log.checkpoint < often and not log.damaged:
        return False
    write_checkpoint(log)
    return True


def forget(log: DeltaLog, retention: Retention) -> int:
    """Remove files, vectors and commits that only older pasts need; gives how many files went.

    What stays: all that the table is made of now, and all that is named by commits after `retention.since`.
    """
    expired = {path for path, moment in log.removed.items() if moment <= retention.horizon_ms}
    # a removed path may be in the table again, with another vector, or in a commit that somebody still reads
    # of a table whose past begins later, what is asked for from before that is gone already
    gone = expired - _needed(log, max(retention.since, _first_commit(log) - 1)) if expired else set()
    log.storage.delete(gone)
    for path in gone:
        del log.removed[path]
    return len(gone) + _forget_commits(log, retention)


def sweep(log: DeltaLog, retention: Retention) -> int:
    """Remove files that no commit names: of a process that was killed before its commit, or a task that ran twice.

    Only what was written long before the past that is kept: somebody may be about to name it. Gives how many went.
    """
    horizon = retention.horizon_ms - LEFT_HOURS * HOUR_MS
    written = [each for folder in ("", CHANGE_FOLDER) for each in log.storage.written(folder).items()]
    old = {path for path, at in written if at < horizon and _OURS.match(path.rpartition("/")[2])}
    unknown = old - _of_table(log) - log.removed.keys()
    # every commit there is would have to be read for this: not unless there is something to be asked for
    gone = unknown - _needed(log, _first_commit(log) - 1) if unknown else set()
    log.storage.delete(gone)
    return len(gone)


def _first_commit(log: DeltaLog) -> int:
    names = log.storage.names(LOG)
    return min((_version(name) for name in names if name.endswith(".json") and _version(name) >= 0), default=0)


def _of_table(log: DeltaLog) -> set[str]:
    """What the table is made of now: its files, and their vectors'."""
    files = log.state.files.values()
    return {file.path for file in files} | {file.vector.path for file in files if file.vector and file.vector.in_file}


def _needed(log: DeltaLog, since: int) -> set[str]:
    needed = _of_table(log)
    for actions in log.all_actions(range(since + 1, log.state.version + 1)):
        for action in actions:
            named = [action[kind] for kind in ("add", "remove", "cdc") if kind in action]
            needed |= {path for each in named for path in paths_of(each)}
    return needed


def _forget_commits(log: DeltaLog, retention: Retention) -> int:
    """Commits before the last checkpoint from which `since` can be read, oldest first, as far as they are old."""
    names = log.storage.names(LOG)
    readable = checkpoints_in(name for name in names if name not in log.damaged)
    checkpoints = [version for version in readable if version <= retention.since]
    older = [name for name in names if checkpoints and -1 < _version(name) < max(checkpoints)]
    commits = _read_ahead(log, [_version(name) for name in older if name.endswith(".json")])
    gone = list[str]()
    for name in older:
        if name.endswith(".json"):
            actions = next(commits)
            # not only this one stays, but all behind it: a log with a gap is no past
            if committed_ms(actions) > retention.horizon_ms:
                break
            gone += _change_data(actions)
        gone.append(f"{LOG}/{name}")
    log.storage.delete(gone)
    return len(gone)


def _version(name: str) -> int:
    found = version_of(name)
    return -1 if found is None else found


def _read_ahead(log: DeltaLog, versions: Sequence[int]) -> Iterator[list[Action]]:
    """What these versions did, one after the other; some are read at the same time."""
    for start in range(0, len(versions), READS_AT_ONCE):
        yield from log.all_actions(versions[start : start + READS_AT_ONCE])


def _change_data(actions: Sequence[Action]) -> list[str]:
    """Change data that is in no data file: its commit alone knows it."""
    added = {action["add"]["path"] for action in actions if "add" in action}
    return [action["cdc"]["path"] for action in actions if "cdc" in action and action["cdc"]["path"] not in added]
