"""Write a table's checkpoint: its snapshot in one Parquet file, so that readers skip older commits.

See the Delta protocol, "Checkpoints" and "Last Checkpoint File". The checkpoint comes from memory. Neither its cost nor
its size grows with the retained past.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cdc.sinks.lake.delta.actions import Action, Remove, Txn, to_row
from cdc.sinks.lake.delta.checkpoint_reader import LOG, POINTER, SINCE
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.snapshot import Snapshot, now_ms

CHECKPOINT_EVERY: Final = 20
"""Commits between two checkpoints: a reader opens these one by one."""
MANY_FILES, SELDOM_FACTOR = 1000, 5
"""A checkpoint lists every file: tables with more than MANY_FILES are checkpointed SELDOM_FACTOR times less often."""
IDLE_MS: Final = 10 * 60 * 1000
"""After this long without commits a table counts as idle, and its last commits get a checkpoint, too."""
ROWS_AT_ONCE: Final = 20_000

_FLAG, _INT, _LONG, _TEXT = pa.bool_(), pa.int32(), pa.int64(), pa.string()
_TEXTS, _LIST = pa.map_(_TEXT, _TEXT), pa.list_(_TEXT)
_VECTOR = pa.struct(
    {"storageType": _TEXT, "pathOrInlineDv": _TEXT, "offset": _INT, "sizeInBytes": _INT, "cardinality": _LONG}
)
_FILE = {"path": _TEXT, "partitionValues": _TEXTS, "size": _LONG, "deletionVector": _VECTOR}
_ADD = {**_FILE, "modificationTime": _LONG, "dataChange": _FLAG, "stats": _TEXT, "tags": _TEXTS}
_REMOVE = {**_FILE, "deletionTimestamp": _LONG, "dataChange": _FLAG, "extendedFileMetadata": _FLAG}
_METADATA = {
    "id": _TEXT,
    "name": _TEXT,
    "description": _TEXT,
    "format": pa.struct({"provider": _TEXT, "options": _TEXTS}),
    "schemaString": _TEXT,
    "partitionColumns": _LIST,
    "configuration": _TEXTS,
    "createdTime": _LONG,
}
_PROTOCOL = {"minReaderVersion": _INT, "minWriterVersion": _INT, "readerFeatures": _LIST, "writerFeatures": _LIST}
SCHEMA: Final = pa.schema(
    {
        "txn": pa.struct({"appId": _TEXT, "version": _LONG, "lastUpdated": _LONG}),
        "add": pa.struct(_ADD),
        "remove": pa.struct(_REMOVE),
        "metaData": pa.struct(_METADATA),
        "protocol": pa.struct(_PROTOCOL),
    }
)
"""The columns that Spark writes, too."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A snapshot and its tombstones (`remove` actions); these cover all files removed after version `since`."""

    snapshot: Snapshot
    tombstones: list[Remove]
    since: int

    def actions(self) -> Iterator[Action]:
        """The checkpoint's rows."""
        yield from (action for action in (self.snapshot.protocol, self.snapshot.metadata) if action)
        for app_id, version in self.snapshot.transactions.items():
            yield Txn(app_id, version)
        for file in self.snapshot.files.values():
            yield file.add_action(data_change=False)
        yield from (msgspec.structs.replace(tombstone, data_change=False) for tombstone in self.tombstones)


def take_due_checkpoint(log: DeltaLog, horizon_ms: float) -> Checkpoint | None:
    """Build a checkpoint if one is due, else return None.

    One is due after enough commits, or when the table is idle and all its commits are past the retention horizon.
    """
    log.is_maintained = True
    behind = log.snapshot.version - log.checkpoint
    often = CHECKPOINT_EVERY * (SELDOM_FACTOR if len(log.snapshot.files) > MANY_FILES else 1)
    is_past = 0 < log.commit_time_ms <= min(horizon_ms, now_ms() - IDLE_MS)
    # a damaged checkpoint locks other readers out
    if behind < often and not (behind > 0 and is_past) and not log.damaged:
        return None
    return build_checkpoint(log)


def build_checkpoint(log: DeltaLog) -> Checkpoint:
    """Build a checkpoint of the current snapshot. It drains the recent tombstones, so the caller must write it."""
    checkpoint = Checkpoint(log.snapshot, log.tombstones.drain(), log.tombstones_since)
    log.tombstones_since = log.snapshot.version
    return checkpoint


def write_checkpoint(log: DeltaLog, checkpoint: Checkpoint) -> None:
    """Write a checkpoint and point readers at it; raises OSError or CdcError."""
    version, actions = checkpoint.snapshot.version, checkpoint.actions()
    name, rows = f"{version:020}.checkpoint.parquet", 0
    with log.storage.open_writer(f"{LOG}/{name}") as file:
        schema = SCHEMA.with_metadata({SINCE: str(checkpoint.since)})
        with pq.ParquetWriter(file, schema, compression="snappy") as writer:
            # in slices, to bound the Python dicts in memory
            while part := list(islice(actions, ROWS_AT_ONCE)):
                rows += len(part)
                writer.write_table(pa.Table.from_pylist([_row(action) for action in part], schema))
        size = file.tell()
    # the pointer's fields are the protocol's ("Last Checkpoint File")
    pointer = {"version": version, "size": rows, "sizeInBytes": size, "numOfAddFiles": len(checkpoint.snapshot.files)}
    # readers follow the pointer, so write it after the checkpoint
    log.storage.write(f"{LOG}/{POINTER}", json.dumps(pointer).encode())
    # unreadable, and no longer named by the pointer
    log.storage.delete([f"{LOG}/{damaged}" for damaged in log.damaged if damaged not in (name, POINTER)])
    log.checkpoint, log.damaged = version, ()


def _row(action: Action) -> Mapping[str, Any]:
    return {name: _maps_as_pairs(fields) for name, fields in to_row(action).items()}


def _maps_as_pairs(value: Mapping[str, Any]) -> dict[str, Any]:
    """Arrow takes maps as lists of pairs."""
    row = dict(value)
    for name in ("partitionValues", "tags", "configuration", "options"):
        if isinstance(row.get(name), Mapping):
            row[name] = list(row[name].items())
    if isinstance(row.get("format"), Mapping):
        row["format"] = _maps_as_pairs(row["format"])
    return row
