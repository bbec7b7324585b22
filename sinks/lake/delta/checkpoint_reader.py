"""The state that a checkpoint stands for; one that is damaged is passed over for an older one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sinks.lake.delta.damage import damage_of
from sinks.lake.delta.snapshot import Action, State
from sinks.lake.storage.base import Storage, at_once

LOG: Final = "_delta_log"
POINTER: Final = "_last_checkpoint"
SINCE: Final = "cdc.since"
"""A checkpoint of ours names here the version from which on it has all files that went."""
CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_COLUMNS: Final = (
    *("txn", "protocol", "metaData", "add.path", "add.size", "add.modificationTime", "add.stats"),
    *("add.deletionVector", "add.partitionValues"),
    # files that are no longer in the table: they go into the next checkpoint, too
    *("remove.path", "remove.deletionTimestamp", "remove.size", "remove.deletionVector"),
)


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The state of the newest checkpoint that can be read, None where there is none.

    `gone`: what it says of files that the table had before. `damaged`: the names of the files of newer checkpoints,
    which cannot be read, or of what leads readers to one that is gone.
    """

    state: State | None
    gone: Sequence[Action]
    damaged: Sequence[str]


def checkpoints_in(names: Iterable[str]) -> dict[int, list[str]]:
    """The whole checkpoints among the files of a log: version, and the names of its parts.

    One in parts is there when all are that its names count (Delta protocol, "Checkpoint Naming Scheme").
    """
    parts: dict[int, list[str]] = {}
    wanted: dict[int, int] = {}
    for name in names:
        if found := CHECKPOINT.fullmatch(name):
            parts.setdefault(int(found[1]), []).append(name)
            wanted[int(found[1])] = int(found[3] or 1)
    return {version: files for version, files in parts.items() if len(files) >= wanted[version]}


def checkpointed(storage: Storage, names: Iterable[str], until: int | None) -> Checkpointed:
    """The newest whole checkpoint at or before `until` that can be read."""
    names = [*names]
    parts, damaged = checkpoints_in(names), list[str]()
    for version in sorted((version for version in parts if until is None or version <= until), reverse=True):
        try:
            state, gone = read_checkpoint(storage, version, parts[version])
        except (OSError, ValueError) as error:
            if not damage_of(error):
                raise
            damaged += parts[version]
            continue
        return Checkpointed(state, gone, damaged)
    # readers go where the pointer sends them, and find nothing there
    return Checkpointed(None, [], damaged or [name for name in names if name == POINTER])


def read_checkpoint(storage: Storage, version: int, parts: Sequence[str]) -> tuple[State, Sequence[Action]]:
    """The table at a checkpoint that has these parts, and its actions for files that the table had before.

    Raises OSError or ValueError where it is gone or damaged.
    """
    state, gone, _ = read_own_checkpoint(storage, version, parts)
    return state, gone


def read_own_checkpoint(
    storage: Storage, version: int, parts: Sequence[str]
) -> tuple[State, Sequence[Action], int | None]:
    """The same, and the version from which on it has all files that went; None where it is not one of ours."""
    tables = [_table(content) for content in at_once(storage.read, [f"{LOG}/{name}" for name in parts])]
    since = (tables[0].schema.metadata or {}).get(SINCE.encode())
    actions = [action for table in tables for action in _actions(table)]
    gone = [action for action in actions if "remove" in action]
    # those only: a checkpoint is a state, and what it says of a file that is gone takes nothing out of it
    state = State().after(version, [action for action in actions if "remove" not in action])
    return replace(state, commit=None), gone, None if since is None else int(since)


def _table(content: bytes) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    there = set(file.schema_arrow.names)
    return file.read([name for name in _COLUMNS if name.partition(".")[0] in there])


def _actions(table: pa.Table) -> Iterable[Action]:
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
