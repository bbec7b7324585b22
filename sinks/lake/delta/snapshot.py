"""A Delta table at one version: its files, metadata and transactions (Delta protocol, "Actions", "Action
Reconciliation")."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Self

from sinks.lake.delta.deletion_vectors import VectorDescriptor

Action = Mapping[str, Any]
_DIGEST_LENGTH: Final = 40
"""Differs from the length of a UUID, with or without dashes."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table as the log names it: `rows` counts physical rows, `vector` marks the deleted ones.

    `size` is in bytes, `modified_ms` in ms since 1970; `stats` is the log's JSON ("Per-file Statistics").
    """

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int
    vector: VectorDescriptor | None = None

    @property
    def vector_id(self) -> str | None:
        return self.vector.unique_id if self.vector else None

    @property
    def live_rows(self) -> int:
        return self.rows - (self.vector.cardinality if self.vector else 0)

    def add_action(self, *, data_change: bool = True) -> Action:
        """The `add` action of this file with its vector."""
        fields: dict[str, Any] = {
            "path": self.path,
            "partitionValues": {},
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": data_change,
            "stats": self.stats,
        }
        return {"add": {**fields, "deletionVector": self.vector.as_json()} if self.vector else fields}

    def remove_action(self, now_ms: int, *, data_change: bool = True) -> Action:
        """The `remove` action of this file with its current vector."""
        fields: dict[str, Any] = {
            "path": self.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": self.size,
        }
        return {"remove": {**fields, "deletionVector": self.vector.as_json()} if self.vector else fields}

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
            VectorDescriptor.from_json(vector) if vector else None,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version.

    metadata_version   version by which, at the latest, the metadata had its present form
    commit_id          id of the version's commit; None when only a checkpoint of it was read
    """

    version: int = -1
    protocol: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, DataFile] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    metadata_version: int = -1
    commit_id: str | None = None

    @property
    def configuration(self) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.metadata.get("configuration") or {}
        return properties

    @property
    def table_id(self) -> str:
        return str(self.metadata.get("id"))

    @property
    def live_rows(self) -> int:
        return sum(file.live_rows for file in self.files.values())

    def with_commit(self, version: int, actions: Sequence[Action]) -> "Snapshot":
        """The snapshot after one more commit; the order of its actions does not matter."""
        files, transactions = dict(self.files), dict(self.transactions)
        protocol, metadata, metadata_version = self.protocol, self.metadata, self.metadata_version
        for action in actions:
            match action:
                case {"add": add}:
                    files[add["path"]] = DataFile.from_action(add)
                case {"remove": remove}:
                    _remove_file(files, remove)
                case {"txn": txn}:
                    transactions[txn["appId"]] = int(txn["version"])
                case {"protocol": newer}:
                    protocol = newer
                case {"metaData": newer}:
                    metadata, metadata_version = newer, version
        return Snapshot(version, protocol, metadata, files, transactions, metadata_version, commit_id(actions))


@dataclass(frozen=True, slots=True)
class TxnUpdate:
    """A writer's progress inside a commit: moves the `txn` action of `app_id` from version `before` to `to`.

    `before` is None for the first one. See the Delta protocol, "Transaction Identifiers".
    """

    app_id: str
    before: int | None
    to: int

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether nobody else moved it since."""
        return snapshot.transactions.get(self.app_id) == self.before

    @property
    def action(self) -> Action:
        return txn_action(self.app_id, self.to)


def txn_action(app_id: str, version: int) -> Action:
    """The `txn` action of this version."""
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": now_ms()}}


def _remove_file(files: dict[str, DataFile], remove: Mapping[str, Any]) -> None:
    """Remove a file, unless the same commit added it with another vector.

    Actions of one commit have no order; path and vector identify a file ("Add File and Remove File").
    """
    vector = remove.get("deletionVector")
    vector_id = VectorDescriptor.from_json(vector).unique_id if vector else None
    file = files.get(remove["path"])
    if file is not None and file.vector_id == vector_id:
        del files[remove["path"]]


def with_vector(file: DataFile, vector: VectorDescriptor) -> DataFile:
    """The file with a larger vector; its bounds are no longer tight."""
    stats = json.loads(file.stats)
    # numRecords keeps counting physical rows, as the protocol demands
    return replace(file, vector=vector, stats=json.dumps({**stats, "tightBounds": False}, separators=(",", ":")))


def group_by_weight(
    files: Iterable[DataFile], weight: Callable[[DataFile], int], most: int
) -> Iterator[list[DataFile]]:
    """Group neighbouring files up to `most` weight per group; a heavier file is a group of its own."""
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
    """The paths that a file action names: the file, and its vector's file."""
    vector = VectorDescriptor.from_json(file["deletionVector"]) if file.get("deletionVector") else None
    return [file["path"], *([vector.path] if vector and vector.in_file else [])]


def commit_id(actions: Sequence[Action]) -> str | None:
    """Identifies a commit among all with its version: its writer's `txnId`, else a digest of its actions."""
    if not actions:
        return None
    given = next((action["commitInfo"].get("txnId") for action in actions if "commitInfo" in action), None)
    return str(given) if given else blake2b(json.dumps(actions).encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()


def has_writer_id(id: str) -> bool:
    """Whether the writer chose this id, so that the commit contains it."""
    return len(id) != _DIGEST_LENGTH


def commit_time_ms(actions: Iterable[Action]) -> int:
    """When a commit was made, in ms since 1970 by its writer's clock; 0 when it does not say."""
    return next((int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action), 0)


def now_ms() -> int:
    return round(time.time() * 1000)
