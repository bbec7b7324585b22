"""The log of one Delta table: its state, replayed from checkpoint and commits, and the next commit put if absent.

After the Delta protocol ("Delta Log Entries", "Action Reconciliation"). The toolkit writes its own tables only, and
only those of which it knows every feature: a table with another one is refused by name.
"""

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from cdc.core.errors import HistoryLostError, PreconditionError
from sinks.lake.delta.checkpoint_reader import CHECKPOINT, LOG, POINTER, checkpointed
from sinks.lake.delta.other_writers import ENGINE, changed_rows, forbidden, is_copy, unknown
from sinks.lake.delta.price import Written
from sinks.lake.delta.snapshot import Action, State, commit_id, committed_ms, is_given, now_ms
from sinks.lake.delta.tombstones import Tombstones
from sinks.lake.storage.base import Storage, at_once

if TYPE_CHECKING:
    from sinks.lake.delta.retention import Past

_COMMIT = re.compile(r"(\d{20})\.json")
_OF_VERSION = re.compile(r"(\d{20})\.")
"""What begins so is of one version: its commit, its checkpoint, what other writers put beside them."""


class Conflict(Exception):
    """Another writer has taken the version that was to be committed."""


class LogDamagedError(HistoryLostError):
    """Files of a table's log are damaged or gone: nobody can say what the table is made of."""


class DeltaLog:
    """The log below one table's folder, and the state that was last read or written.

    `checkpoint`: the version of the newest checkpoint that is known. `tombstones`: what the next one says of files that
    are no longer in the table. `changed_by`: how another writer has changed rows since our copy, as far as that was
    read. `forbidden`: what of the table keeps us from writing to it. `damaged`: the names of checkpoints' files that
    cannot be read.
    """

    def __init__(self, storage: Storage, state: State, checkpoint: int = -1) -> None:
        self.storage = storage
        self.state = state
        self.checkpoint = checkpoint
        self.tombstones = Tombstones()
        self.written = Written()
        self.commit_bytes = 0
        """How large the last commit of ours is."""
        self.committed_ms = 0
        """When the newest commit was made; 0 where only its checkpoint was read."""
        self.past: Past | None = None
        self.changed_by: str | None = None
        self.damaged: Sequence[str] = ()
        self.forbidden: PreconditionError | None = None
        self._unknown: PreconditionError | None = None
        self._replayed: dict[int, str | None] = {}
        self.told = checkpoint
        """What went up to this version is in a checkpoint, or before the log."""

    @classmethod
    def open(cls, storage: Storage, version: int | None = None) -> Self | None:
        """The table as it stands now, or stood at `version`; None when there is no table.

        Raises PreconditionError for a table with features that we do not know, HistoryLostError when the log no longer
        reaches back to `version`, LogDamagedError when it cannot be read.
        """
        names = storage.names(LOG)
        commits = sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))
        base = checkpointed(storage, names, version)
        # without a checkpoint, a table begins with version 0
        if base.state is None and not (commits and commits[0] == 0):
            if commits or set(base.damaged) - {POINTER}:
                raise LogDamagedError(f"the log of {storage.uri()} is not whole", "bootstrap again")
            return None
        log = cls(storage, base.state or State(), base.state.version if base.state else -1)
        log.damaged = base.damaged
        log.tombstones.restore(base.gone)
        log._replay(commits, version)
        if log.state.commit is None:
            log.state = replace(log.state, commit=log.commit_id(log.state.version))
        log._note_features()
        if log._unknown:
            raise log._unknown
        return log

    def refresh(self) -> list[list[Action]]:
        """Read what others have committed since; gives the actions of every new version.

        Raises PreconditionError when one of them brings a feature that we do not know, LogDamagedError when one cannot
        be read.
        """
        found = []
        # versions are contiguous: the first that is not there has not been written
        while (actions := self.read(self.state.version + 1)) is not None:
            self._go_on(actions)
            found.append(actions)
        if self._unknown:
            raise self._unknown
        return found

    def commit(self, actions: Sequence[Action], operation: str) -> int:
        """Make these actions the next version, durable when this returns.

        Raises Conflict when it is taken, FileNotFoundError when the version before it is gone or another one by now.
        """
        version = self.state.version + 1
        lines = [{"commitInfo": _commit_info(operation)}, *actions]
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
        # a log that somebody removed must not go on in its middle: nobody could read it. Nor one that was put back to
        # an older state: the versions that this state stands on would be missing
        before = _name(version - 1) if version else None
        if not self.storage.create(_name(version), text.encode(), before, self._holding()):
            raise Conflict(f"version {version}")
        self.commit_bytes = len(text)
        self._go_on(lines)
        return version

    def is_there(self) -> bool:
        """Is the commit that was seen last still there? Behind one that was forgotten, no other would ever be found."""
        return self.read(self.state.version) is not None

    def commit_id(self, version: int) -> str | None:
        """The id of the commit that made a version; None where the log has none, or none that can be read."""
        if version == self.state.version and self.state.commit is not None:
            return self.state.commit
        if version in self._replayed:
            return self._replayed[version]
        try:
            return commit_id(self.read(version) or ())
        except LogDamagedError:
            return None

    def look_for_others(self, since: int) -> None:
        """Note whether others have changed rows behind this version, where a checkpoint spared us the commits."""
        for version in range(since + 1, min(self.checkpoint, self.state.version) + 1):
            actions = self.read(version)
            if actions is None or is_copy(actions):
                self.changed_by = self.changed_by if actions is None else None
            else:
                self.changed_by = self.changed_by or changed_rows(version, actions, self.state, ())

    def actions(self, version: int) -> list[Action]:
        """What one version did; raises HistoryLostError when the log no longer has it."""
        found = self.read(version)
        if found is None:
            raise HistoryLostError(f"version {version} of a table of the lake is gone", "raise the lake's retention")
        return found

    def all_actions(self, versions: Sequence[int]) -> list[list[Action]]:
        """What each of some versions did; raises HistoryLostError when the log no longer has one of them."""
        try:
            read = at_once(self.storage.read, [*map(_name, versions)])
        except FileNotFoundError as error:
            raise HistoryLostError(
                f"a version of a table of the lake is gone: {error.filename}", "raise the lake's retention"
            ) from None
        return [self._parsed(version, text) for version, text in zip(versions, read, strict=True)]

    def _go_on(self, actions: Sequence[Action]) -> None:
        version = self.state.version + 1
        if is_copy(actions):
            self.changed_by = None
        elif self.changed_by is None:
            self.changed_by = changed_rows(version, actions, self.state, self.tombstones)
        self.state = self.state.after(version, actions)
        self.committed_ms = committed_ms(actions)
        self.tombstones.take_in(actions)
        self.written.take_in(actions)
        if any("protocol" in action or "metaData" in action for action in actions):
            self._note_features()

    def _holding(self) -> bytes:
        """What the commit has in it that made the version; nothing where its writer gave it no id."""
        found = self.state.commit
        return found.encode() if found and is_given(found) else b""

    def read(self, version: int) -> list[Action] | None:
        """What one version did; None when it is not there."""
        try:
            text = self.storage.read(_name(version))
        except FileNotFoundError:
            return None
        return self._parsed(version, text)

    def _parsed(self, version: int, commit: bytes) -> list[Action]:
        try:
            # lines of bytes: those of a text end at U+2028 and U+0085, too, which JSON lets stand within a value
            found = [json.loads(line) for line in commit.splitlines() if line]
        except ValueError:
            found = []
        if not found or not all(isinstance(action, dict) for action in found):
            raise LogDamagedError(f"{self.storage.uri()}/{_name(version)} is damaged", "bootstrap again") from None
        return found

    def _replay(self, commits: Sequence[int], until: int | None) -> None:
        last = commits[-1] if until is None and commits else until or 0
        versions = [version for version in commits if self.state.version < version <= last]
        for version, actions in zip(versions, self.all_actions(versions), strict=True):
            if version != self.state.version + 1:
                raise LogDamagedError(f"the log of {self.storage.uri()} has a gap", "bootstrap again")
            self._go_on(actions)
            self._replayed[version] = self.state.commit
        if until is not None and self.state.version != until:
            raise HistoryLostError(f"version {until} of a table of the lake is gone", "raise the lake's retention")

    def _note_features(self) -> None:
        self._unknown, self.forbidden = unknown(self.state), forbidden(self.state, self.storage.uri())


def cut_back(storage: Storage) -> None:
    """Take out of a log that cannot be read what lies behind its last version that can be; all, where there is none.

    The newest file goes first: whoever is killed in between leaves a log that begins as it did.
    """
    versions = {name: int(found[1]) for name in storage.names(LOG) if (found := _OF_VERSION.match(name))}
    descending = sorted(set(versions.values()), reverse=True)
    whole = next((version for version in descending if _is_whole(storage, version)), -1)
    # it may name a checkpoint that goes; where there is none, readers list the folder
    storage.delete([f"{LOG}/{POINTER}"])
    for name in sorted(versions, reverse=True):
        if versions[name] > whole:
            storage.delete([f"{LOG}/{name}"])


def _is_whole(storage: Storage, version: int) -> bool:
    try:
        return DeltaLog.open(storage, version) is not None
    except PreconditionError:
        return True
    except HistoryLostError:
        return False


def _name(version: int) -> str:
    """The file of a commit."""
    return f"{LOG}/{version:020}.json"


def _commit_info(operation: str) -> Action:
    """Who commits what; the id tells this commit from any other, also when it is tried again."""
    return {
        "timestamp": now_ms(),
        "operation": operation,
        "operationParameters": {},
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }


def version_of(name: str) -> int | None:
    """The version that a file of the log belongs to."""
    found = _COMMIT.fullmatch(name) or CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None
