"""Keeps a table as quick to read as on its first day: small files together, dead rows out, the past forgotten in time.

Files are put together size by size, as an LSM tree does with its runs, so that a row is rewritten a handful of times
however many batches there are.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sinks.lake.checkpoint import write_checkpoint
from sinks.lake.delta_log import LOG, DeltaLog, checkpoints_in, committed_ms, version_of
from sinks.lake.delta_state import Action, DataFile, now_ms, paths_of
from sinks.lake.live_table import LiveTable
from sinks.lake.rewrite import rewritten
from sinks.lake.storage import READS_AT_ONCE

TOGETHER: Final = 8
"""So many files of one size are put together."""
SMALLEST_BYTES: Final = 64 * 1024
LARGEST_BYTES: Final = 64 * 1024 * 1024
"""Files of this size and above stay as they are, but for their dead rows."""
MOST_DEAD: Final = 0.1
"""A file with a larger part of dead rows is written anew."""
CHECKPOINT_EVERY: Final = 100
HOUR_MS: Final = 3_600_000


def maintain(live: LiveTable, past: "Past") -> None:
    """Put files together, write a checkpoint, forget what is older than `past`, and save the index."""
    for group in to_rewrite(list(live.state.files.values())):
        rewritten(live, group)
    with live.lock:
        checkpointed(live.log)
        forget(live.log, past)
        live.save_index(everything=False)


def to_rewrite(files: Iterable[DataFile]) -> list[list[str]]:
    """Groups of files that are to become one file each: those with many dead rows, and enough small ones of a size."""
    sizes: defaultdict[int, list[str]] = defaultdict(list)
    groups: list[list[str]] = []
    for file in files:
        if file.rows - file.live_rows > MOST_DEAD * file.rows:
            groups.append([file.path])
        elif file.size < LARGEST_BYTES:
            sizes[_magnitude(file.size)].append(file.path)
    return groups + [paths for paths in sizes.values() if len(paths) >= TOGETHER]


def _magnitude(size: int) -> int:
    return max(0, math.ceil(math.log(size / SMALLEST_BYTES, TOGETHER)))


def checkpointed(log: DeltaLog) -> bool:
    """Write a checkpoint when enough commits have come since the last; says whether there was one to write."""
    if log.state.version - log.checkpoint < CHECKPOINT_EVERY:
        return False
    write_checkpoint(log)
    return True


@dataclass(frozen=True, slots=True)
class Past:
    """How much of a table's past is kept: what happened within so many hours, and all that leads on from a version."""

    hours: float
    since: int

    @property
    def horizon_ms(self) -> float:
        return now_ms() - self.hours * HOUR_MS


def forget(log: DeltaLog, past: Past) -> int:
    """Remove files, vectors and commits that only older pasts need; gives how many files went.

    What stays: all that the table is made of now, and all that is named by commits after `past.since`.
    """
    expired = {path for path, moment in log.removed.items() if moment <= past.horizon_ms}
    gone = expired - _needed(log, past.since) if expired else set()
    log.storage.delete(gone)
    for path in gone:
        del log.removed[path]
    return len(gone) + _forget_commits(log, past)


def _needed(log: DeltaLog, since: int) -> set[str]:
    files = log.state.files.values()
    needed = {file.path for file in files} | {file.vector.path for file in files if file.vector and file.vector.in_file}
    for actions in log.all_actions(range(since + 1, log.state.version + 1)):
        for action in actions:
            named = [action[kind] for kind in ("add", "remove", "cdc") if kind in action]
            needed |= {path for each in named for path in paths_of(each)}
    return needed


def _forget_commits(log: DeltaLog, past: Past) -> int:
    """Commits before the last checkpoint from which `past.since` can be read, oldest first, as far as they are old."""
    names = log.storage.names(LOG)
    checkpoints = [version for version in checkpoints_in(names) if version <= past.since]
    older = [name for name in names if checkpoints and -1 < _version(name) < max(checkpoints)]
    commits = _read_ahead(log, [_version(name) for name in older if name.endswith(".json")])
    gone = list[str]()
    for name in older:
        if name.endswith(".json"):
            actions = next(commits)
            if committed_ms(actions) > past.horizon_ms:
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
