"""A checkpoint of a table: its state in one Parquet file, so that nobody has to read all commits.

After the Delta protocol ("Checkpoints", "Last Checkpoint File"). It is made of the state in memory: neither what is
read for it nor its size grows with the past that is kept.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sinks.lake.delta.checkpoint_reader import LOG, POINTER, SINCE
from sinks.lake.delta.log import DeltaLog
from sinks.lake.delta.snapshot import Action, State, now_ms

CHECKPOINT_EVERY: Final = 20
"""Commits that a reader has to open one by one behind the checkpoint, and those of a round of the upkeep."""
MANY_FILES, SELDOM = 1000, 5
"""A checkpoint names every file: of a table with more than so many, it is made so many times as seldom."""
RESTS_MS: Final = 10 * 60 * 1000
"""A table that nobody has written to for so long rests: its last commits are worth a checkpoint, too."""
ROWS_AT_ONCE: Final = 20_000

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_FILE = [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64()), ("deletionVector", _VECTOR)]
SCHEMA: Final = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    *_FILE,
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXTS),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    *_FILE,
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)
"""The columns that Spark writes, too."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What one says: the table at a version, and the `remove` actions of files that it had before; all that went behind
    the version `since` are among them."""

    state: State
    tombstones: list[Action]
    since: int

    def actions(self) -> Iterator[Action]:
        """All of its rows."""
        yield {"protocol": self.state.protocol}
        yield {"metaData": self.state.metadata}
        for app_id, version in self.state.transactions.items():
            yield {"txn": {"appId": app_id, "version": version}}
        for file in self.state.files.values():
            yield file.added(data_change=False)
        yield from ({"remove": {**each["remove"], "dataChange": False}} for each in self.tombstones)


def due_checkpoint(log: DeltaLog, horizon_ms: float) -> Checkpoint | None:
    """The checkpoint that is to be written now: when enough commits have come since the last one, or when all of them
    are older than the past that is kept, and can be forgotten behind it."""
    behind = log.state.version - log.checkpoint
    often = CHECKPOINT_EVERY * (SELDOM if len(log.state.files) > MANY_FILES else 1)
    is_past = 0 < log.committed_ms <= min(horizon_ms, now_ms() - RESTS_MS)
    # one that is damaged keeps other readers from the table
    if behind < often and not (behind > 0 and is_past) and not log.damaged:
        return None
    return made(log)


def made(log: DeltaLog) -> Checkpoint:
    """A checkpoint of the table as it is, the only one that has what went since the last one: it is to be written."""
    found, log.told = Checkpoint(log.state, log.tombstones.taken(), log.told), log.state.version
    return found


def write_checkpoint(log: DeltaLog, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; raises OSError or CdcError where that fails."""
    version, actions = checkpoint.state.version, checkpoint.actions()
    name, rows = f"{version:020}.checkpoint.parquet", 0
    with log.storage.writing(f"{LOG}/{name}") as file:
        schema = SCHEMA.with_metadata({SINCE: str(checkpoint.since)})
        with pq.ParquetWriter(file, schema, compression="snappy") as writer:
            while part := list(islice(actions, ROWS_AT_ONCE)):
                rows += len(part)
                writer.write_table(pa.Table.from_pylist([_row(action) for action in part], schema))
        size = file.tell()
    pointer = {"version": version, "size": rows, "sizeInBytes": size, "numOfAddFiles": len(checkpoint.state.files)}
    # readers go by the pointer: it comes when what it names is there
    log.storage.write(f"{LOG}/{POINTER}", json.dumps(pointer).encode())
    # nobody can read them, and no reader is sent to them any more
    log.storage.delete([f"{LOG}/{damaged}" for damaged in log.damaged if damaged not in (name, POINTER)])
    log.checkpoint, log.damaged = version, ()


def _row(action: Action) -> Mapping[str, Any]:
    """An action as a row of the schema: Arrow takes maps as pairs."""
    return {kind: _paired(value) for kind, value in action.items()}


def _paired(value: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(value)
    for name in ("partitionValues", "tags", "configuration", "options"):
        if isinstance(found.get(name), Mapping):
            found[name] = list(found[name].items())
    if isinstance(found.get("format"), Mapping):
        found["format"] = _paired(found["format"])
    return found
