"""The actions of a commit (Delta protocol, "Actions"), and their JSON, one action per line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from cdc.sinks.lake.delta.deletion_vectors import VectorDescriptor

DIGEST_LENGTH: Final = 40
"""Differs from the length of a UUID, with or without dashes."""

Kind = TypeVar("Kind")


class Add(msgspec.Struct, frozen=True, rename="camel"):
    """Adds a data file, or changes its deletion vector. `size` is in bytes, `modification_time` in ms since 1970."""

    path: str
    size: int
    partition_values: dict[str, Any] | None = None
    modification_time: int | None = None
    data_change: bool = True
    stats: str | None = None
    deletion_vector: VectorDescriptor | None = None


class Remove(msgspec.Struct, frozen=True, rename="camel"):
    """Removes a data file with this deletion vector; in a checkpoint, a tombstone."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, Any] | None = None
    size: int | None = None
    deletion_vector: VectorDescriptor | None = None


class Cdc(msgspec.Struct, frozen=True, rename="camel"):
    """Names a file of change data."""

    path: str
    size: int
    partition_values: dict[str, Any] | None = None
    data_change: bool = False


class Txn(msgspec.Struct, frozen=True, rename="camel"):
    """Sets the version of an application's transactions."""

    app_id: str
    version: int
    last_updated: int | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Describes the table. `schema_string` is the schema's JSON; `configuration` has the table properties."""

    id: str
    schema_string: str
    name: str | None = None
    description: str | None = None
    # with maps as Parquet returns them, where a checkpoint was read
    format: Any = None
    partition_columns: list[str] | None = None
    created_time: int | None = None
    configuration: dict[str, Any] | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel"):
    """Declares the versions and table features that readers and writers need."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    """Describes the commit. `timestamp` is in ms since 1970, by its writer's clock.

    `txn_id` identifies the commit: its writer's id, or a digest when it has none.
    """

    timestamp: int | None = None
    operation: str | None = None
    operation_parameters: Any = None
    engine_info: str | None = None
    txn_id: str | None = None


Action = Add | Remove | Cdc | Txn | Metadata | Protocol | CommitInfo
_TYPES: Final[Mapping[str, type[Action]]] = {
    "add": Add,
    "remove": Remove,
    "cdc": Cdc,
    "txn": Txn,
    "metaData": Metadata,
    "protocol": Protocol,
    "commitInfo": CommitInfo,
}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    """A line of a commit has one of these; other writers' lines may have actions that nobody here needs."""

    add: Add | None = None
    remove: Remove | None = None
    cdc: Cdc | None = None
    txn: Txn | None = None
    meta_data: Metadata | None = None
    protocol: Protocol | None = None
    commit_info: CommitInfo | None = None

    def actions(self) -> Iterator[Action]:
        fields = (self.add, self.remove, self.cdc, self.txn, self.meta_data, self.protocol, self.commit_info)
        return (action for action in fields if action is not None)


# not strict: some writers quote numbers
_LINES: Final = msgspec.json.Decoder(_Line, strict=False)


def decode_commit(content: bytes) -> list[Action]:
    """Decode a commit, `CommitInfo` included; raises ValueError when it is damaged."""
    # split bytes, not text: str.splitlines also splits at U+2028 and U+0085, which JSON allows in values
    lines = [line for line in content.splitlines() if line]
    if not lines:
        raise ValueError("the commit is empty")
    actions = [action for line in lines for action in _LINES.decode(line).actions()]
    info = next(of_type(actions, CommitInfo), None)
    if info is None or not info.txn_id:
        known = msgspec.structs.replace(info or CommitInfo(), txn_id=_digest(lines))
        # first, as readers take the first one
        return [known, *(action for action in actions if action is not info)]
    return actions


def _digest(lines: Sequence[bytes]) -> str:
    # cuts on disk have these digests: they are taken from Python's JSON of all lines, unknown actions included
    text = json.dumps([json.loads(line) for line in lines])
    return blake2b(text.encode(), digest_size=DIGEST_LENGTH // 2).hexdigest()


def encode_commit(actions: Sequence[Action]) -> bytes:
    """Encode a commit, one action per line."""
    lines = [json.dumps(to_row(action), separators=(",", ":"), ensure_ascii=False) + "\n" for action in actions]
    return "".join(lines).encode()


def to_row(action: Action) -> dict[str, dict[str, Any]]:
    """An action under its name in the protocol, without absent fields."""
    return {_NAMES[type(action)]: _without_none(msgspec.to_builtins(action))}


def from_row(name: str, fields: Mapping[str, Any]) -> Action:
    """Read a checkpoint's action; raises ValueError when it is none."""
    return msgspec.convert(fields, _TYPES[name], strict=False)


def of_type(actions: Sequence[Action], kind: type[Kind]) -> Iterator[Kind]:
    return (action for action in actions if isinstance(action, kind))


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    # readers expect no `offset` in an inline vector, not a null
    nested = {
        name: _without_none(value) if name == "deletionVector" and value else value for name, value in fields.items()
    }
    return {name: value for name, value in nested.items() if value is not None}


def paths_of(file: Add | Remove | Cdc) -> list[str]:
    """The paths that a file action names: the file, and its vector's file."""
    vector = None if isinstance(file, Cdc) else file.deletion_vector
    return [file.path, *([vector.path] if vector and vector.in_file else [])]


def commit_info(actions: Sequence[Action]) -> CommitInfo:
    """The commit's `CommitInfo`, an empty one when it has none."""
    return next(of_type(actions, CommitInfo), CommitInfo())


def commit_id(actions: Sequence[Action]) -> str | None:
    """Identifies a commit among all with its version: its writer's id, else a digest of its actions."""
    return commit_info(actions).txn_id


def has_writer_id(id: str) -> bool:
    """Whether the writer chose this id, so that the commit contains it."""
    return len(id) != DIGEST_LENGTH


def commit_time_ms(actions: Sequence[Action]) -> int:
    """When a commit was made, in ms since 1970 by its writer's clock; 0 when it does not say."""
    return commit_info(actions).timestamp or 0
