"""The log of one Delta table: its state, replayed from checkpoint and commits, and the next commit put if absent.

After the Delta protocol ("Delta Log Entries", "Action Reconciliation"). The toolkit writes its own tables only, and
only those of which it knows every feature: a table with another one is refused by name.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from cdc.core.errors import HistoryLostError, PreconditionError
from sinks.lake.delta_state import Action, State, now_ms, paths_of
from sinks.lake.storage import Storage, at_once

LOG = "_delta_log"

KNOWN_FEATURES = frozenset(
    {"appendOnly", "invariants", "changeDataFeed", "deletionVectors", "timestampNtz", "checkConstraints"}
    | {"generatedColumns", "variantType", "variantType-preview"}
)
"""What may be declared without changing what we write; the last two stand in tables of older versions of ours."""

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_CHECKPOINT_COLUMNS = (
    *("txn", "protocol", "metaData", "add.path", "add.size", "add.modificationTime", "add.stats"),
    *("add.deletionVector", "add.partitionValues"),
    # files that are no longer in the table, as long as somebody may read them: here, whoever is to delete them
    *("remove.path", "remove.deletionTimestamp", "remove.deletionVector"),
)


class Conflict(Exception):
    """Another writer has taken the version that was to be committed."""


class DeltaLog:
    """The log below one table's folder, and the state that was last read or written.

    `removed`: paths of files and vectors that commits took out of the table, as far as they were read, and when.
    """

    def __init__(self, storage: Storage, state: State, checkpoint: int = -1) -> None:
        self.storage = storage
        self.state = state
        self.checkpoint = checkpoint
        self.removed: dict[str, int] = {}

    @classmethod
    def open(cls, storage: Storage, version: int | None = None) -> Self | None:
        """The table as it stands now, or stood at `version`; None when there is no table.

        Raises PreconditionError for a table with features that we do not know, HistoryLostError when the log no longer
        reaches back to `version`.
        """
        names = storage.names(LOG)
        commits = sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))
        state, gone = _checkpointed(storage, names, version)
        # without a checkpoint, a table begins with version 0
        if state is None and not (commits and commits[0] == 0):
            if commits:
                raise HistoryLostError("the log of a table of the lake is not whole", "bootstrap again")
            return None
        log = cls(storage, state or State(), state.version if state else -1)
        log._note_removed(gone)
        log._replay(commits, version)
        log._check_features()
        return log

    def refresh(self) -> list[list[Action]]:
        """Read what others have committed since; gives the actions of every new version.

        Raises PreconditionError when one of them brings a feature that we do not know.
        """
        found = []
        # versions are contiguous: the first that is not there has not been written
        while (actions := self._read(self.state.version + 1)) is not None:
            self._go_on(actions)
            found.append(actions)
        if found:
            self._check_features()
        return found

    def commit(self, actions: Sequence[Action], operation: str) -> int:
        """Make these actions the next version, durable when this returns.

        Raises Conflict when it is taken, FileNotFoundError when the table is gone.
        """
        version = self.state.version + 1
        lines = [{"commitInfo": _commit_info(operation)}, *actions]
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
        # a log that somebody removed must not go on in its middle: nobody could read it
        before = _name(version - 1) if version else None
        if not self.storage.create(_name(version), text.encode(), before):
            raise Conflict(f"version {version}")
        self._go_on(actions)
        return version

    def actions(self, version: int) -> list[Action]:
        """What one version did; raises HistoryLostError when the log no longer has it."""
        found = self._read(version)
        if found is None:
            raise HistoryLostError(f"version {version} of a table of the lake is gone", "raise the lake's retention")
        return found

    def all_actions(self, versions: Sequence[int]) -> list[list[Action]]:
        """What each of some versions did; raises HistoryLostError when the log no longer has one of them."""
        try:
            return [_parsed(text) for text in at_once(self.storage.read, [*map(_name, versions)])]
        except FileNotFoundError as error:
            raise HistoryLostError(
                f"a version of a table of the lake is gone: {error.filename}", "raise the lake's retention"
            ) from None

    def _go_on(self, actions: Sequence[Action]) -> None:
        self.state = self.state.after(self.state.version + 1, actions)
        self._note_removed(actions)

    def _note_removed(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if "remove" in action:
                # also a file that comes back with another vector: `upkeep.forget` asks the table first
                moment = int(action["remove"].get("deletionTimestamp") or 0)
                self.removed |= dict.fromkeys(paths_of(action["remove"]), moment)

    def _read(self, version: int) -> list[Action] | None:
        try:
            text = self.storage.read(_name(version))
        except FileNotFoundError:
            return None
        return _parsed(text)

    def _replay(self, commits: Sequence[int], until: int | None) -> None:
        last = commits[-1] if until is None and commits else until or 0
        versions = [version for version in commits if self.state.version < version <= last]
        for version, actions in zip(versions, self.all_actions(versions), strict=True):
            if version != self.state.version + 1:
                raise HistoryLostError("the log of a table of the lake has a gap", "bootstrap again")
            self._go_on(actions)
        if until is not None and self.state.version != until:
            raise HistoryLostError(f"version {until} of a table of the lake is gone", "raise the lake's retention")

    def _check_features(self) -> None:
        protocol = self.state.protocol
        declared = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        if unknown := sorted(declared - KNOWN_FEATURES):
            raise PreconditionError(
                f"table {self.state.metadata.get('name')} of the lake was given {', '.join(unknown)}, which cdc cannot"
                " write",
                "drop the feature (ALTER TABLE … DROP FEATURE), or bootstrap into another path",
            )


def _name(version: int) -> str:
    """The file of a commit."""
    return f"{LOG}/{version:020}.json"


def _parsed(commit: bytes) -> list[Action]:
    # lines of bytes: those of a text end at U+2028 and U+0085, too, which JSON lets stand within a value
    return [json.loads(line) for line in commit.splitlines() if line]


def _commit_info(operation: str) -> Action:
    """Who commits what; the id tells this commit from any other, also when it is tried again."""
    return {
        "timestamp": now_ms(),
        "operation": operation,
        "operationParameters": {},
        "engineInfo": "cdc-toolkit",
        "txnId": str(uuid.uuid4()),
    }


def committed_ms(actions: Iterable[Action]) -> int:
    """When a commit was made, by the clock of whoever made it."""
    return next((int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action), 0)


def version_of(name: str) -> int | None:
    """The version that a file of the log belongs to."""
    found = _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


def checkpoints_in(names: Iterable[str]) -> dict[int, list[str]]:
    """The whole checkpoints among the files of a log: version, and the names of its parts.

    One in parts is there when all are that its names count (Delta protocol, "Checkpoint Naming Scheme").
    """
    parts: dict[int, list[str]] = {}
    wanted: dict[int, int] = {}
    for name in names:
        if found := _CHECKPOINT.fullmatch(name):
            parts.setdefault(int(found[1]), []).append(name)
            wanted[int(found[1])] = int(found[3] or 1)
    return {version: files for version, files in parts.items() if len(files) >= wanted[version]}


def _checkpointed(storage: Storage, names: Iterable[str], until: int | None) -> tuple[State | None, Sequence[Action]]:
    """The newest whole checkpoint at or before `until`, and what it says of files that the table had before."""
    parts = checkpoints_in(names)
    whole = [version for version in parts if until is None or version <= until]
    if not whole:
        return None, []
    version = max(whole)
    contents = at_once(storage.read, [f"{LOG}/{name}" for name in parts[version]])
    tables = [_checkpoint_table(content) for content in contents]
    actions = [action for table in tables for action in _checkpoint_actions(table)]
    gone = [action for action in actions if "remove" in action]
    # those only: a checkpoint is a state, and what it says of a file that is gone takes nothing out of it
    return State().after(version, [action for action in actions if "remove" not in action]), gone


def _checkpoint_table(content: bytes) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    there = set(file.schema_arrow.names)
    return file.read([name for name in _CHECKPOINT_COLUMNS if name.partition(".")[0] in there])


def _checkpoint_actions(table: pa.Table) -> Iterable[Action]:
    for row in table.to_pylist():
        for kind, value in row.items():
            if _is_filled(kind, value):
                yield {kind: _plain(value)}


def _is_filled(kind: str, value: Mapping[str, Any] | None) -> bool:
    """A column that has only some of its fields read is a struct of nulls where there is no such action."""
    return value is not None and (kind not in ("add", "remove") or value.get("path") is not None)


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Maps come as lists of pairs."""
    return {
        name: dict(found) if name in ("configuration", "options", "partitionValues") and found is not None else found
        for name, found in value.items()
    }
