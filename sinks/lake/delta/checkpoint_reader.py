"""Read a table's newest checkpoint; skip damaged ones for an older one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdc.sinks.lake.delta.actions import Action, Remove, from_row, of_type
from cdc.sinks.lake.delta.damage import describe_damage
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.storage.base import Storage, map_concurrently

LOG: Final = "_delta_log"
POINTER: Final = "_last_checkpoint"
SINCE: Final = "cdc.since"
"""Key of our checkpoints' metadata: the version from which their tombstones are complete."""
CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_COLUMNS: Final = (
    *("txn", "protocol", "metaData", "add.path", "add.size", "add.modificationTime", "add.stats"),
    *("add.deletionVector", "add.partitionValues"),
    # tombstones: the next checkpoint carries them on
    *("remove.path", "remove.deletionTimestamp", "remove.size", "remove.deletionVector"),
)


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """The newest readable checkpoint: its snapshot (None when there is none) and tombstones.

    `damaged`: file names of newer, unreadable checkpoints, or the pointer when it names a missing checkpoint.
    """

    snapshot: Snapshot | None
    tombstones: Sequence[Remove]
    damaged: Sequence[str]


def group_checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """The complete checkpoints among the log's file names: version → names of its parts.

    A checkpoint in parts is complete when all the parts that its names count are there (Delta protocol, "Checkpoint
    Naming Scheme").
    """
    parts: dict[int, list[str]] = {}
    wanted: dict[int, int] = {}
    for name in names:
        if match := CHECKPOINT.fullmatch(name):
            parts.setdefault(int(match[1]), []).append(name)
            # a single-file checkpoint has no count
            wanted[int(match[1])] = int(match[3] or 1)
    return {version: files for version, files in parts.items() if len(files) >= wanted[version]}


def load_checkpoint(storage: Storage, names: Iterable[str], until: int | None) -> LoadedCheckpoint:
    """Load the newest readable checkpoint at or before version `until`."""
    names = [*names]
    parts, damaged = group_checkpoints(names), list[str]()
    # newest first: an older checkpoint only means more commits to replay
    for version in sorted((version for version in parts if until is None or version <= until), reverse=True):
        try:
            snapshot, tombstones, _ = read_own_checkpoint(storage, version, parts[version])
        except (OSError, ValueError) as error:
            if not describe_damage(error):
                raise
            damaged += parts[version]
            continue
        return LoadedCheckpoint(snapshot, tombstones, damaged)
    # the pointer sends readers to a checkpoint that is gone
    return LoadedCheckpoint(None, [], damaged or [name for name in names if name == POINTER])


def read_own_checkpoint(
    storage: Storage, version: int, parts: Sequence[str]
) -> tuple[Snapshot, Sequence[Remove], int | None]:
    """Read a checkpoint from its parts; returns the snapshot, the tombstones, and the version from which these are
    complete, None for other writers' checkpoints.

    Raises OSError or ValueError when a part is gone or damaged.
    """
    tables = [_table(content) for content in map_concurrently(storage.read, [f"{LOG}/{name}" for name in parts])]
    since = (tables[0].schema.metadata or {}).get(SINCE.encode())
    actions = [action for table in tables for action in _actions(table)]
    tombstones = [*of_type(actions, Remove)]
    # skip tombstones: in a checkpoint, a `remove` takes nothing out of the snapshot
    snapshot = Snapshot().with_commit(version, [action for action in actions if not isinstance(action, Remove)])
    return replace(snapshot, commit_id=None), tombstones, None if since is None else int(since)


def _table(content: bytes) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    there = set(file.schema_arrow.names)
    return file.read([name for name in _COLUMNS if name.partition(".")[0] in there])


def _actions(table: pa.Table) -> Iterable[Action]:
    for row in table.to_pylist():
        for kind, value in row.items():
            if _is_filled(kind, value):
                yield from_row(kind, _pairs_as_maps(value))


def _is_filled(kind: str, value: Mapping[str, Any] | None) -> bool:
    """Whether the row has this action: a partly read column is a struct of nulls where it has none."""
    return value is not None and (kind not in ("add", "remove") or value.get("path") is not None)


def _pairs_as_maps(value: Mapping[str, Any]) -> dict[str, Any]:
    """Parquet returns maps as lists of pairs."""
    return {
        name: dict(field) if name in ("configuration", "options", "partitionValues") and field is not None else field
        for name, field in value.items()
    }
