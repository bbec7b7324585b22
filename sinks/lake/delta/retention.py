"""Delete a table's past once it is older than the retention, checkpoint by checkpoint.

A checkpoint lists the table's files. Once every commit up to it is old enough, nothing within the retained past needs a
file that those commits removed and the checkpoint does not list. The log itself names the files, so memory holds none
of them.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.core.errors import HistoryLostError
from cdc.core.fail_points import reach
from cdc.sinks.lake.delta.actions import Action, Add, Cdc, Remove, commit_time_ms, of_type, paths_of
from cdc.sinks.lake.delta.checkpoint_reader import LOG, group_checkpoints, read_own_checkpoint
from cdc.sinks.lake.delta.damage import describe_damage
from cdc.sinks.lake.delta.data_files import CHANGE_FOLDER
from cdc.sinks.lake.delta.log import DeltaLog, LogDamagedError, commit_versions
from cdc.sinks.lake.delta.snapshot import Snapshot, now_ms
from cdc.sinks.lake.storage.base import READS_AT_ONCE, Storage, map_concurrently

HOUR_MS: Final = 3_600_000
ORPHAN_HOURS: Final = 24
"""Minimum age, beyond the retention, of a file that no commit names: a killed process left it."""
RELIST_SECONDS: Final = 3_600.0
"""How often to list a log for other writers' checkpoints."""
MAX_CHECKPOINTS: Final = 50
"""Checkpoints per round: after a pause there may be thousands."""
OURS: Final = re.compile(r"\.?(part-|copy-|cdc-|deletion_vector_)")


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a table's past to keep: the last `hours`, and all versions from `since` on."""

    hours: float
    since: int

    @property
    def horizon_ms(self) -> float:
        """Commits before this time, in ms since 1970, may be deleted."""
        return now_ms() - self.hours * HOUR_MS


@dataclass
class LogHistory:
    """A log's oldest commit, and its checkpoints: version → names of the parts.

    `version`: the table's when the log was listed. `next_ms`: commit time of `next_checkpoint()`, once it was read.
    """

    first: int
    checkpoints: dict[int, list[str]]
    version: int
    next_ms: int | None = None
    listed_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, log: DeltaLog) -> "LogHistory":
        """List a log; unreadable checkpoints do not count."""
        names = [name for name in log.storage.list_names(LOG) if name not in log.damaged]
        return cls(min(commit_versions(names), default=0), group_checkpoints(names), log.snapshot.version)

    def may_lack(self, log: DeltaLog) -> bool:
        """Whether other writers may have written checkpoints since. They do when they commit."""
        return self.version != log.snapshot.version and time.monotonic() - self.listed_at > RELIST_SECONDS

    def next_checkpoint(self) -> int | None:
        """The oldest checkpoint with commits before it."""
        return min((version for version in self.checkpoints if version > self.first), default=None)


def vacuum(log: DeltaLog, retention: Retention) -> int:
    """Delete files, vectors and commits that only the past beyond the retention needs; returns their number.

    Keeps everything in the current snapshot, and everything since `retention.since`. Only one thread per process may
    call it; the table may be written meanwhile.
    """
    if log.history is None or log.history.may_lack(log):
        log.history = LogHistory.of(log)
    # our own new checkpoint needs no listing
    if log.checkpoint >= 0:
        log.history.checkpoints.setdefault(log.checkpoint, [f"{log.checkpoint:020}.checkpoint.parquet"])
    count = 0
    try:
        for _ in range(MAX_CHECKPOINTS):
            if (version := _find_due(log, log.history, retention)) is None:
                break
            count += _vacuum_until(log, log.history, version)
    # a damaged log is no race with another process: its table has to stop
    except LogDamagedError:
        raise
    except (FileNotFoundError, HistoryLostError):
        # another process vacuums, too: start from a fresh listing in the next round
        log.history = None
    return count


def _find_due(log: DeltaLog, history: LogHistory, retention: Retention) -> int | None:
    """The next checkpoint whose commits are all past the retention."""
    version = history.next_checkpoint()
    if version is None or version > retention.since:
        return None
    if history.next_ms is None:
        history.next_ms = commit_time_ms(log.actions(version))
    return version if history.next_ms <= retention.horizon_ms else None


def _vacuum_until(log: DeltaLog, history: LogHistory, version: int) -> int:
    """Delete the files that commits up to this checkpoint removed, then the commits before it; returns their number."""
    commits = range(history.first, version + 1)
    try:
        snapshot, removed, since = read_own_checkpoint(log.storage, version, history.checkpoints[version])
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) or not describe_damage(error):
            raise
        # the next checkpoint covers its commits, too
        del history.checkpoints[version]
        history.next_ms = None
        return 0
    # our checkpoint lists all files removed since the log's first commit: one read instead of all commits
    if since is not None and since <= history.first:
        dropped = {path for action in removed for path in paths_of(action)}
    else:
        dropped = _find_dropped_paths(_read_ahead(log, commits))
    # a removed file never returns, except by another writer's RESTORE, which stops the table
    gone = dropped - live_paths(snapshot) - live_paths(log.snapshot)
    older_versions = [older_version for older_version in history.checkpoints if older_version < version]
    names = [
        *(f"{older_version:020}.json" for older_version in commits[:-1]),
        *(part for older_version in older_versions for part in history.checkpoints[older_version]),
    ]
    # files first: after a kill, the log still names them
    log.storage.delete(gone)
    reach("vacuum.files")
    log.storage.delete(f"{LOG}/{name}" for name in names)
    reach("vacuum.commits")
    # their files are deleted: no VACUUM needs the tombstones
    log.tombstones.forget(history.next_ms or 0)
    history.first, history.next_ms = version, None
    for older_version in older_versions:
        del history.checkpoints[older_version]
    return len(gone) + len(names)


def _find_dropped_paths(commits: Iterable[Sequence[Action]]) -> set[str]:
    """The paths that commits removed, and of change data outside data files, which only its commit names."""
    paths = set[str]()
    for actions in commits:
        paths |= {path for remove in of_type(actions, Remove) for path in paths_of(remove)}
        added = {add.path for add in of_type(actions, Add)}
        paths |= {cdc.path for cdc in of_type(actions, Cdc)} - added
    return paths


def delete_orphans(log: DeltaLog, retention: Retention) -> int:
    """Delete files that no commit names, left by a killed process or a repeated task; returns their number.

    Deletes only files much older than the retention: a younger one may be about to be committed.
    """
    horizon = retention.horizon_ms - ORPHAN_HOURS * HOUR_MS
    old = {path for path, at in list_ours(log.storage).items() if at < horizon}
    # most sweeps end here: files in the snapshot need no look into the log
    unknown = old - live_paths(log.snapshot)
    if unknown:
        # reads every commit, a few at a time
        for actions in _read_ahead(log, range(LogHistory.of(log).first, log.snapshot.version + 1)):
            named = [action for action in actions if isinstance(action, Add | Remove | Cdc)]
            unknown -= {path for file in named for path in paths_of(file)}
    log.storage.delete(unknown)
    return len(unknown)


def list_ours(storage: Storage) -> dict[str, int]:
    """The files of a table's folder that are ours by their names, with the times when they were written."""
    written = [entry for folder in ("", CHANGE_FOLDER) for entry in storage.list_write_times(folder).items()]
    return {path: at for path, at in written if OURS.match(path.rpartition("/")[2])}


def live_paths(snapshot: Snapshot) -> set[str]:
    """The paths of a snapshot's data files and vector files."""
    files = snapshot.files.values()
    return {file.path for file in files} | {file.vector.path for file in files if file.vector and file.vector.in_file}


def _read_ahead(log: DeltaLog, versions: Sequence[int]) -> Iterator[list[Action]]:
    """Yield the actions of these versions in order, reading some ahead.

    Skips missing versions: a killed vacuum deletes a version's files before the version.
    """
    for start in range(0, len(versions), READS_AT_ONCE):
        yield from (
            actions
            for actions in map_concurrently(log.read, versions[start : start + READS_AT_ONCE])
            if actions is not None
        )
