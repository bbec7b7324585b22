"""How much of a table's past is kept: what only older pasts need is deleted, from checkpoint to checkpoint.

A checkpoint says what the table was made of. Once all that leads up to it is old enough, whatever the commits up to it
took out of the table, and it does not name, is named by no past that is kept. So files are found where they are needed
last, in the log, and nothing of them is kept in memory.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.core.errors import HistoryLostError
from sinks.lake.delta.checkpoint_reader import LOG, checkpoints_in, read_own_checkpoint
from sinks.lake.delta.damage import damage_of
from sinks.lake.delta.data_files import CHANGE_FOLDER
from sinks.lake.delta.log import DeltaLog, LogDamagedError, version_of
from sinks.lake.delta.snapshot import Action, State, committed_ms, now_ms, paths_of
from sinks.lake.storage.base import READS_AT_ONCE, at_once

HOUR_MS: Final = 3_600_000
LEFT_HOURS: Final = 24
"""So old is a file that no commit names before it counts as left by a killed process, beyond the past that is kept."""
LOOK_SECONDS: Final = 3_600.0
"""How often a log is listed: other hands may have made checkpoints in it."""
MOST_CHECKPOINTS: Final = 50
"""So many are gone through in one round, at most: behind a pause there may be thousands."""
_OURS: Final = re.compile(r"\.?(part-|copy-|cdc-|deletion_vector_)")


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a table's past is kept: what happened within so many hours, and all that leads on from a version."""

    hours: float
    since: int

    @property
    def horizon_ms(self) -> float:
        return now_ms() - self.hours * HOUR_MS


@dataclass
class Past:
    """What a log is known to hold: its oldest commit, and its checkpoints with the names of their parts.

    `old_ms`: when the commit of the oldest checkpoint that is still to be gone through was made, where that was read.
    """

    first: int
    checkpoints: dict[int, list[str]]
    old_ms: int | None = None
    looked: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, log: DeltaLog) -> "Past":
        names = [name for name in log.storage.names(LOG) if name not in log.damaged]
        commits = (_version(name) for name in names if name.endswith(".json"))
        return cls(min((version for version in commits if version >= 0), default=0), checkpoints_in(names))

    def next(self) -> int | None:
        """The oldest checkpoint that has commits before it."""
        return min((version for version in self.checkpoints if version > self.first), default=None)


def forget(log: DeltaLog, retention: Retention) -> int:
    """Delete files, vectors and commits that only older pasts need; gives how many went.

    What stays: all that the table is made of now, and all that leads on from `retention.since`. Whoever calls it is the
    only one of this process; the table may be written to meanwhile.
    """
    if log.past is None or time.monotonic() - log.past.looked > LOOK_SECONDS:
        log.past = Past.of(log)
    if log.checkpoint >= 0:
        log.past.checkpoints.setdefault(log.checkpoint, [f"{log.checkpoint:020}.checkpoint.parquet"])
    count = 0
    try:
        for _ in range(MOST_CHECKPOINTS):
            if (version := _due(log, log.past, retention)) is None:
                break
            count += _forget_until(log, log.past, version)
    except LogDamagedError:
        raise
    except (FileNotFoundError, HistoryLostError):
        # another process forgets, too: what there is now is looked at in the next round
        log.past = None
    return count


def _due(log: DeltaLog, past: Past, retention: Retention) -> int | None:
    """The next checkpoint, once all that leads up to it is older than the past that is kept."""
    version = past.next()
    if version is None or version > retention.since:
        return None
    if past.old_ms is None:
        past.old_ms = committed_ms(log.actions(version))
    return version if past.old_ms <= retention.horizon_ms else None


def _forget_until(log: DeltaLog, past: Past, version: int) -> int:
    """Delete what commits up to this checkpoint took out of the table, and then the commits before it."""
    commits = range(past.first, version + 1)
    try:
        state, removed, since = read_own_checkpoint(log.storage, version, past.checkpoints[version])
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) or not damage_of(error):
            raise
        # the next one stands for its commits, too
        del past.checkpoints[version]
        past.old_ms = None
        return 0
    if since is not None and since <= past.first:
        went = {path for action in removed for path in paths_of(action["remove"])}
    else:
        went = _taken_out(_read_ahead(log, commits))
    # none of a table's files comes back once it has gone, but by another hand's RESTORE, which is another table
    gone = went - made_of(state) - made_of(log.state)
    older = [each for each in past.checkpoints if each < version]
    names = [
        *(f"{each:020}.json" for each in commits[:-1]),
        *(part for each in older for part in past.checkpoints[each]),
    ]
    # files first: killed in between, the log still says which they are
    log.storage.delete(gone)
    log.storage.delete(f"{LOG}/{name}" for name in names)
    log.tombstones.forget(past.old_ms or 0)
    past.first, past.old_ms = version, None
    for each in older:
        del past.checkpoints[each]
    return len(gone) + len(names)


def _taken_out(commits: Iterable[Sequence[Action]]) -> set[str]:
    """The paths that commits removed, and those of change data that is in no data file: only its commit knows it."""
    found = set[str]()
    for actions in commits:
        found |= {path for action in actions if "remove" in action for path in paths_of(action["remove"])}
        added = {action["add"]["path"] for action in actions if "add" in action}
        found |= {action["cdc"]["path"] for action in actions if "cdc" in action} - added
    return found


def sweep(log: DeltaLog, retention: Retention) -> int:
    """Remove files that no commit names: of a process that was killed before its commit, or a task that ran twice.

    Only what was written long before the past that is kept: somebody may be about to name it. Gives how many went.
    """
    horizon = retention.horizon_ms - LEFT_HOURS * HOUR_MS
    written = [each for folder in ("", CHANGE_FOLDER) for each in log.storage.written(folder).items()]
    old = {path for path, at in written if at < horizon and _OURS.match(path.rpartition("/")[2])}
    unknown = old - made_of(log.state)
    if unknown:
        # every commit there is has to be read for this, a few at a time
        for actions in _read_ahead(log, range(Past.of(log).first, log.state.version + 1)):
            named = [action[kind] for action in actions for kind in ("add", "remove", "cdc") if kind in action]
            unknown -= {path for each in named for path in paths_of(each)}
    log.storage.delete(unknown)
    return len(unknown)


def made_of(state: State) -> set[str]:
    """What a table is made of: its files, and their vectors'."""
    files = state.files.values()
    return {file.path for file in files} | {file.vector.path for file in files if file.vector and file.vector.in_file}


def _version(name: str) -> int:
    found = version_of(name)
    return -1 if found is None else found


def _read_ahead(log: DeltaLog, versions: Sequence[int]) -> Iterator[list[Action]]:
    """What these versions did, one after the other; some are read at the same time.

    One that is missing is passed over: whoever was killed while it was forgotten had deleted its files before.
    """
    for start in range(0, len(versions), READS_AT_ONCE):
        yield from (found for found in at_once(log.read, versions[start : start + READS_AT_ONCE]) if found is not None)
