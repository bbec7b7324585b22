"""The log of one Delta table: replayed from checkpoint and commits, extended by put-if-absent.

See the Delta protocol, "Delta Log Entries" and "Action Reconciliation". The toolkit writes only its own tables, and
only while it knows all their features.
"""

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from cdc.core.counters import COMMIT_CONFLICTS, COUNTERS
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.fail_points import reach
from cdc.sinks.lake.delta.actions import (
    Action,
    CommitInfo,
    Metadata,
    Protocol,
    commit_id,
    commit_time_ms,
    decode_commit,
    encode_commit,
    has_writer_id,
)
from cdc.sinks.lake.delta.checkpoint_reader import LOG, POINTER, load_checkpoint
from cdc.sinks.lake.delta.other_writers import (
    ENGINE,
    describe_row_change,
    find_unknown_features,
    find_write_blocker,
    is_copy,
)
from cdc.sinks.lake.delta.snapshot import Snapshot, now_ms
from cdc.sinks.lake.delta.tombstones import Tombstones
from cdc.sinks.lake.delta.write_rate import RateMeter
from cdc.sinks.lake.storage.base import Storage, map_concurrently

if TYPE_CHECKING:
    from cdc.sinks.lake.delta.retention import LogHistory

_COMMIT = re.compile(r"(\d{20})\.json")
_OF_VERSION = re.compile(r"(\d{20})\.")
"""Matches any file of one version: commit, checkpoint, other writers' files."""


class ConflictError(Exception):
    """Another writer took the version that was to be committed."""


class LogDamagedError(HistoryLostError):
    """Files of a table's log are damaged or gone, so the table's content is unknown."""


READER_COMMITS: Final = 200
"""After how many commits a log of which no checkpoint is made forgets tombstones. A log read for a day held a million.

More than lie between two rounds of maintenance: if fewer did, `vacuum` would read the forgotten commits again.
"""


class DeltaLog:
    """The log of one table, and the snapshot that was last read or written.

    checkpoint      version of the newest known checkpoint
    tombstones      `remove` actions for the next checkpoint
    row_change      another writer's row change since our copy; None while there is none
    write_blocker   a table property or constraint that forbids our writes
    damaged         file names of unreadable checkpoints
    """

    def __init__(self, storage: Storage, snapshot: Snapshot, checkpoint: int = -1) -> None:
        self.storage = storage
        self.snapshot = snapshot
        self.checkpoint = checkpoint
        self.tombstones = Tombstones()
        self.rate_meter = RateMeter()
        self.commit_bytes = 0
        """Size of our last commit."""
        self.commit_time_ms = 0
        """Time of the newest commit; 0 when only its checkpoint was read."""
        self.history: LogHistory | None = None
        self.row_change: str | None = None
        self.damaged: Sequence[str] = ()
        self.write_blocker: PreconditionError | None = None
        self._unknown_features: PreconditionError | None = None
        self._commit_ids: dict[int, str | None] = {}
        self.tombstones_since = checkpoint
        """Tombstones up to this version are in a checkpoint, forgotten, or older than the log."""
        self.is_maintained = False
        """Whether checkpoints are made of this object, which take its tombstones: no reader's is."""

    @classmethod
    def open(cls, storage: Storage, version: int | None = None) -> Self | None:
        """Open the table, now or at `version`; None when there is no table.

        Raises PreconditionError for unknown table features, HistoryLostError when the log no longer reaches back to
        `version`, LogDamagedError when it is unreadable.
        """
        names = storage.list_names(LOG)
        commits = commit_versions(names)
        base = load_checkpoint(storage, names, version)
        # without a checkpoint, replay must start at version 0
        if base.snapshot is None and not (commits and commits[0] == 0):
            if commits or set(base.damaged) - {POINTER}:
                raise LogDamagedError(f"the log of {storage.uri()} is not whole", "bootstrap again")
            return None
        # -1: no checkpoint, and the first commit becomes version 0
        log = cls(storage, base.snapshot or Snapshot(), base.snapshot.version if base.snapshot else -1)
        log.damaged = base.damaged
        log.tombstones.restore(base.tombstones)
        log._replay(commits, version)
        # no commits followed the checkpoint: its own commit has the id, if vacuum has left it
        if log.snapshot.commit_id is None:
            log.snapshot = replace(log.snapshot, commit_id=log.commit_id(log.snapshot.version))
        log._check_features()
        if log._unknown_features:
            raise log._unknown_features
        return log

    def refresh(self) -> list[list[Action]]:
        """Read other writers' new commits; returns the actions of each new version.

        Raises PreconditionError when one brings an unknown feature, LogDamagedError when one is unreadable.
        """
        commits = []
        # versions are contiguous: the first missing one is not written yet
        while (actions := self.read(self.snapshot.version + 1)) is not None:
            self._advance(actions)
            commits.append(actions)
        if self._unknown_features:
            raise self._unknown_features
        return commits

    def commit(self, actions: Sequence[Action], operation: str) -> int:
        """Commit these actions as the next version, durable on return.

        Raises ConflictError when the version is taken, FileNotFoundError when the version before it is gone or was
        replaced.
        """
        version = self.snapshot.version + 1
        # the id tells this commit from any other of its version, also to a retried request
        lines = [CommitInfo(now_ms(), operation, {}, ENGINE, str(uuid.uuid4())), *actions]
        content = encode_commit(lines)
        # never continue a log that somebody removed or put back: versions would be missing below ours
        before = _name(version - 1) if version else None
        reach("delta.commit.before")
        if not self.storage.put_if_absent(_name(version), content, before, self._expected_content()):
            COUNTERS.add(COMMIT_CONFLICTS)
            raise ConflictError(f"version {version}")
        reach("delta.commit.after")
        self.commit_bytes = len(content)
        # our own commit changes the snapshot as if it were read
        self._advance(lines)
        return version

    def has_last_commit(self) -> bool:
        """Whether the last seen commit still exists. After its removal `refresh` would find nothing, ever."""
        return self.read(self.snapshot.version) is not None

    def commit_id(self, version: int) -> str | None:
        """The id of a version's commit; None when the log lacks the commit or it is unreadable."""
        if version == self.snapshot.version and self.snapshot.commit_id is not None:
            return self.snapshot.commit_id
        if version in self._commit_ids:
            return self._commit_ids[version]
        try:
            return commit_id(self.read(version) or ())
        except LogDamagedError:
            return None

    def check_skipped_commits(self, since: int) -> None:
        """Check the commits after `since` that replay skipped thanks to a checkpoint; sets `row_change`."""
        for version in range(since + 1, min(self.checkpoint, self.snapshot.version) + 1):
            actions = self.read(version)
            if actions is None or is_copy(actions):
                # our copy replaced all rows, foreign changes included; a missing commit tells nothing
                self.row_change = self.row_change if actions is None else None
            else:
                self.row_change = self.row_change or describe_row_change(version, actions, self.snapshot, ())

    def actions(self, version: int) -> list[Action]:
        """The actions of one version; raises HistoryLostError when the log no longer has it."""
        actions = self.read(version)
        if actions is None:
            raise HistoryLostError(f"version {version} of a table of the lake is gone", "raise the lake's retention")
        return actions

    def all_actions(self, versions: Sequence[int]) -> list[list[Action]]:
        """The actions of several versions; raises HistoryLostError when the log no longer has one of them."""
        try:
            read = map_concurrently(self.storage.read, [*map(_name, versions)])
        except FileNotFoundError as error:
            raise HistoryLostError(
                f"a version of a table of the lake is gone: {error.filename}", "raise the lake's retention"
            ) from None
        return [self._parse(version, text) for version, text in zip(versions, read, strict=True)]

    def _advance(self, actions: Sequence[Action]) -> None:
        version = self.snapshot.version + 1
        if is_copy(actions):
            self.row_change = None
        elif self.row_change is None:
            self.row_change = describe_row_change(version, actions, self.snapshot, self.tombstones)
        self.snapshot = self.snapshot.with_commit(version, actions)
        self.commit_time_ms = commit_time_ms(actions)
        self.tombstones.add_commit(actions)
        if not self.is_maintained and version - self.tombstones_since >= READER_COMMITS:
            self.tombstones.forget_ours()
            self.tombstones_since = version
        self.rate_meter.add(actions)
        if any(isinstance(action, Protocol | Metadata) for action in actions):
            self._check_features()

    def _expected_content(self) -> bytes:
        """Bytes that the last commit must contain; empty when its writer gave it no id."""
        id = self.snapshot.commit_id
        return id.encode() if id and has_writer_id(id) else b""

    def read(self, version: int) -> list[Action] | None:
        """Read one version's actions; None when it does not exist."""
        try:
            text = self.storage.read(_name(version))
        except FileNotFoundError:
            return None
        return self._parse(version, text)

    def _parse(self, version: int, content: bytes) -> list[Action]:
        try:
            return decode_commit(content)
        except ValueError:
            raise LogDamagedError(f"{self.storage.uri()}/{_name(version)} is damaged", "bootstrap again") from None

    def _replay(self, commits: Sequence[int], until: int | None) -> None:
        # the log may have commits beyond `until`: another process goes on writing
        last = commits[-1] if until is None and commits else until or 0
        versions = [version for version in commits if self.snapshot.version < version <= last]
        for version, actions in zip(versions, self.all_actions(versions), strict=True):
            if version != self.snapshot.version + 1:
                raise LogDamagedError(f"the log of {self.storage.uri()} has a gap", "bootstrap again")
            self._advance(actions)
            self._commit_ids[version] = self.snapshot.commit_id
        if until is not None and self.snapshot.version != until:
            raise HistoryLostError(f"version {until} of a table of the lake is gone", "raise the lake's retention")

    def _check_features(self) -> None:
        self._unknown_features = find_unknown_features(self.snapshot)
        self.write_blocker = find_write_blocker(self.snapshot, self.storage.uri())


def truncate_log(storage: Storage) -> None:
    """Delete everything after the last readable version of a damaged log; all of it when none is readable.

    Deletes the newest file first: a killed run leaves an intact beginning.
    """
    versions = {name: int(match[1]) for name in storage.list_names(LOG) if (match := _OF_VERSION.match(name))}
    descending = sorted(set(versions.values()), reverse=True)
    # try each version from the newest down, until one replays without damage
    whole = next((version for version in descending if _is_whole(storage, version)), -1)
    # it may name a deleted checkpoint; without it, readers list the folder
    storage.delete([f"{LOG}/{POINTER}"])
    for name in sorted(versions, reverse=True):
        if versions[name] > whole:
            storage.delete([f"{LOG}/{name}"])


def _is_whole(storage: Storage, version: int) -> bool:
    try:
        return DeltaLog.open(storage, version) is not None
    # readable, though we cannot write it: only damage counts here
    except PreconditionError:
        return True
    except HistoryLostError:
        return False


def _name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def commit_versions(names: Iterable[str]) -> list[int]:
    """The versions of the commits among a log's file names, ascending."""
    return sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
