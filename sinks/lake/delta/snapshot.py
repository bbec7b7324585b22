"""A Delta table at one version: the files that it is made of, and what else its log says.

After the Delta protocol ("Actions", "Action Reconciliation").
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Self

from sinks.lake.delta.deletion_vectors import Descriptor

Action = Mapping[str, Any]
_DIGEST_LENGTH: Final = 40
"""Other than that of a UUID, with or without its dashes."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table as the log names it: `rows` are the physical ones, `vector` says which are gone.

    `size` is in bytes, `modified_ms` since 1970; `stats` is the log's JSON ("Per-file Statistics").
    """

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int
    vector: Descriptor | None = None

    @property
    def vector_id(self) -> str | None:
        return self.vector.unique_id if self.vector else None

    @property
    def live_rows(self) -> int:
        return self.rows - (self.vector.cardinality if self.vector else 0)

    def added(self, *, data_change: bool = True) -> Action:
        """The action that brings this file, or its new vector, into the table."""
        found: dict[str, Any] = {
            "path": self.path,
            "partitionValues": {},
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": data_change,
            "stats": self.stats,
        }
        return {"add": {**found, "deletionVector": self.vector.as_json()} if self.vector else found}

    def removed(self, now_ms: int, *, data_change: bool = True) -> Action:
        """The action that takes the file, with the vector that it has now, out of the table."""
        found: dict[str, Any] = {
            "path": self.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": self.size,
        }
        return {"remove": {**found, "deletionVector": self.vector.as_json()} if self.vector else found}

    @classmethod
    def from_action(cls, add: Mapping[str, Any]) -> Self:
        stats = add.get("stats") or "{}"
        vector = add.get("deletionVector")
        return cls(
            add["path"],
            int(add["size"]),
            int(json.loads(stats).get("numRecords", -1)),
            stats,
            int(add.get("modificationTime") or 0),
            Descriptor.from_json(vector) if vector else None,
        )


@dataclass(frozen=True, slots=True)
class State:
    """A table at one version; `described_in`: since which, at the latest, its metadata is what it is; `commit`: the id
    of the commit that made the version, None where a checkpoint stands for it."""

    version: int = -1
    protocol: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, DataFile] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    described_in: int = -1
    commit: str | None = None

    @property
    def configuration(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.metadata.get("configuration") or {}
        return found

    @property
    def table_id(self) -> str:
        return str(self.metadata.get("id"))

    @property
    def live_rows(self) -> int:
        return sum(file.live_rows for file in self.files.values())

    def after(self, version: int, actions: Sequence[Action]) -> "State":
        """The state behind one more commit, whose actions may stand in any order."""
        files, transactions = dict(self.files), dict(self.transactions)
        protocol, metadata, described_in = self.protocol, self.metadata, self.described_in
        for action in actions:
            match action:
                case {"add": add}:
                    files[add["path"]] = DataFile.from_action(add)
                case {"remove": remove}:
                    _take_out(files, remove)
                case {"txn": txn}:
                    transactions[txn["appId"]] = int(txn["version"])
                case {"protocol": newer}:
                    protocol = newer
                case {"metaData": newer}:
                    metadata, described_in = newer, version
        return State(version, protocol, metadata, files, transactions, described_in, commit_id(actions))


@dataclass(frozen=True, slots=True)
class Move:
    """How far a writer is, as a commit carries it: the id of its `txn` action, the version that this had when what is
    committed was made (None before the first), and the one that it gets (Delta protocol, "Transaction Identifiers")."""

    app_id: str
    before: int | None
    to: int

    def stands(self, state: State) -> bool:
        """Has nobody else moved it meanwhile?"""
        return state.transactions.get(self.app_id) == self.before

    @property
    def action(self) -> Action:
        return reached(self.app_id, self.to)


def reached(app_id: str, version: int) -> Action:
    """The action that says how far something is."""
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": now_ms()}}


def _take_out(files: dict[str, DataFile], remove: Mapping[str, Any]) -> None:
    """A file that came back with another vector in the same commit stays.

    Its actions have no order, and are told apart by path and vector together ("Add File and Remove File").
    """
    vector = remove.get("deletionVector")
    was = Descriptor.from_json(vector).unique_id if vector else None
    found = files.get(remove["path"])
    if found is not None and found.vector_id == was:
        del files[remove["path"]]


def with_vector(file: DataFile, vector: Descriptor) -> DataFile:
    """The file with more rows gone; its bounds are no longer tight."""
    stats = json.loads(file.stats)
    # numRecords stays: with a vector, it has to be that of the physical rows
    return replace(file, vector=vector, stats=json.dumps({**stats, "tightBounds": False}, separators=(",", ":")))


def bounded_groups(files: Iterable[DataFile], weight: Callable[[DataFile], int], most: int) -> Iterator[list[DataFile]]:
    """Neighbouring files that weigh at most so much together, or one file that weighs more."""
    portion, total = list[DataFile](), 0
    for file in files:
        if portion and total + weight(file) > most:
            yield portion
            portion, total = [], 0
        portion.append(file)
        total += weight(file)
    if portion:
        yield portion


def paths_of(file: Mapping[str, Any]) -> list[str]:
    """The paths below the table's folder that a file's action speaks of: its own, and that of its vector's file."""
    vector = Descriptor.from_json(file["deletionVector"]) if file.get("deletionVector") else None
    return [file["path"], *([vector.path] if vector and vector.in_file else [])]


def commit_id(actions: Sequence[Action]) -> str | None:
    """What tells a commit from any other of its version: the id that its writer gave it, else what it says."""
    if not actions:
        return None
    given = next((action["commitInfo"].get("txnId") for action in actions if "commitInfo" in action), None)
    return str(given) if given else blake2b(json.dumps(actions).encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()


def is_given(id: str) -> bool:
    """Did a commit's writer give it this id, so that the commit has it in it?"""
    return len(id) != _DIGEST_LENGTH


def committed_ms(actions: Iterable[Action]) -> int:
    """When a commit was made, in ms since 1970 by the clock of whoever made it; 0 where it does not say."""
    return next((int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action), 0)


def now_ms() -> int:
    return round(time.time() * 1000)
