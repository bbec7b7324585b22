"""A Delta table at one version: its files, metadata and transactions (Delta protocol, "Actions", "Action
Reconciliation")."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from cdc.sinks.lake.delta.actions import Action, Add, Metadata, Protocol, Remove, Txn, commit_id
from cdc.sinks.lake.delta.deletion_vectors import VectorDescriptor


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
        """The id of the deletion vector; with the path it identifies the file."""
        return self.vector.unique_id if self.vector else None

    @property
    def live_rows(self) -> int:
        """Physical rows minus deleted ones."""
        return self.rows - (self.vector.cardinality if self.vector else 0)

    def add_action(self, *, data_change: bool = True) -> Add:
        """The `add` action of this file with its vector."""
        # `{}`: the protocol demands partition values, and no table here has partitions
        return Add(self.path, self.size, {}, self.modified_ms, data_change, self.stats, self.vector)

    def remove_action(self, now_ms: int, *, data_change: bool = True) -> Remove:
        """The `remove` action of this file with its current vector."""
        return Remove(self.path, now_ms, data_change, True, {}, self.size, self.vector)

    @classmethod
    def of(cls, action: Add | Remove) -> Self:
        """The file of an action; `rows` is -1 where its statistics are missing."""
        stats = (action.stats if isinstance(action, Add) else None) or "{}"
        modified_ms = (action.modification_time if isinstance(action, Add) else None) or 0
        rows = int(json.loads(stats).get("numRecords", -1))
        return cls(action.path, action.size or 0, rows, stats, modified_ms, action.deletion_vector)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version.

    metadata_version   version by which, at the latest, the metadata had its present form
    commit_id          id of the version's commit; None when only a checkpoint of it was read
    """

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    files: Mapping[str, DataFile] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    metadata_version: int = -1
    commit_id: str | None = None

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table properties."""
        return (self.metadata and self.metadata.configuration) or {}

    @property
    def table_id(self) -> str:
        """The Delta table's id; a table created again has another one."""
        return str(self.metadata and self.metadata.id)

    @property
    def name(self) -> str | None:
        return self.metadata.name if self.metadata else None

    @property
    def schema_string(self) -> str | None:
        return self.metadata.schema_string if self.metadata else None

    @property
    def reader_features(self) -> Sequence[str]:
        return (self.protocol and self.protocol.reader_features) or ()

    @property
    def writer_features(self) -> Sequence[str]:
        return (self.protocol and self.protocol.writer_features) or ()

    @property
    def live_rows(self) -> int:
        return sum(file.live_rows for file in self.files.values())

    def with_commit(self, version: int, actions: Sequence[Action]) -> "Snapshot":
        """The snapshot after one more commit; the order of its actions does not matter."""
        # copies: other threads read the old snapshot
        files, transactions = dict(self.files), dict(self.transactions)
        protocol, metadata, metadata_version = self.protocol, self.metadata, self.metadata_version
        for action in actions:
            match action:
                case Add():
                    files[action.path] = DataFile.of(action)
                case Remove():
                    _remove_file(files, action)
                case Txn():
                    transactions[action.app_id] = action.version
                case Protocol():
                    protocol = action
                case Metadata():
                    metadata, metadata_version = action, version
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
    def action(self) -> Txn:
        return txn_action(self.app_id, self.to)


def txn_action(app_id: str, version: int) -> Txn:
    return Txn(app_id, version, now_ms())


def _remove_file(files: dict[str, DataFile], remove: Remove) -> None:
    """Remove a file, unless the same commit added it with another vector.

    Actions of one commit have no order; path and vector identify a file ("Add File and Remove File").
    """
    vector_id = remove.deletion_vector.unique_id if remove.deletion_vector else None
    file = files.get(remove.path)
    if file is not None and file.vector_id == vector_id:
        del files[remove.path]


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


def now_ms() -> int:
    """The time in ms since 1970."""
    return round(time.time() * 1000)
