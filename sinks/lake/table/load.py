"""Copy a table: tasks write Parquet files, and one commit makes them the table's content."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.copied_file import CopiedFile
from cdc.core.errors import RefusedError, TableLostError
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta import data_files, statistics
from cdc.sinks.lake.delta.actions import Action, Add, CommitInfo, Remove
from cdc.sinks.lake.delta.checkpoint_reader import LOG
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog, truncate_log
from cdc.sinks.lake.delta.schema import create_actions, metadata_action
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot, now_ms, txn_action
from cdc.sinks.lake.layout import SCHEMA_PROPERTY, SOURCE_PROPERTY, TABLE_PROPERTY, Lake
from cdc.sinks.lake.storage.base import Storage

PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
FEATURES = ("deletionVectors", "changeDataFeed")

NO_PROPERTIES: Final[Mapping[str, str]] = {}

COPY_PREFIX: Final = "copy-"
"""Prefix of copied files' names."""
MAX_TRIES: Final = 20
"""Tries of a copy's commit beside compaction."""
ORPHAN_MS: Final = 24 * 60 * 60 * 1000
"""Minimum age of an abandoned copied file: a younger one may be about to be committed."""

CopiedFiles = Sequence[CopiedFile]


@dataclass(frozen=True, slots=True)
class LakeCopyWriter:
    """Writes a part of a table's copy; sent to Spark's tasks."""

    table: Table
    storage: Storage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> CopiedFile:
        """Write rows of the table's Arrow schema as one file; one row group is in memory at a time."""
        schema = arrow_schema(self.table)
        bounded = statistics.choose_columns(schema.names, self.table.key)
        made = data_files.write_in_parts(self.storage, f"{COPY_PREFIX}{uuid.uuid4()}.parquet", batches, schema, bounded)
        return CopiedFile(made.path, made.size, made.rows, made.stats)


def prepare_folder(lake: Lake, name: TableName) -> Storage:
    """Create a table's folder for a copy, and delete copied files that were abandoned over a day ago.

    If the table has a log, `delete_orphans` deletes those. Younger ones stay: another machine may be making the same
    copy. Raises PreconditionError when a copy could not be committed.
    """
    storage = lake.table_storage(name)
    storage.make_root()
    # a damaged log is no obstacle: the copy's commit cuts it back
    with suppress(TableLostError):
        _check_writable(lake, name, layout.open_owned_log(lake, name))
    if not storage.list_names(LOG):
        horizon = now_ms() - ORPHAN_MS
        written = storage.list_write_times("").items()
        storage.delete(
            [path for path, at in written if path.removeprefix(".").startswith(COPY_PREFIX) and at < horizon]
        )
    return storage


def load_copy(  # noqa: PLR0913 - what belongs to one commit
    lake: Lake,
    table: Table,
    copy: CopiedFiles,
    bookmark: Bookmark,
    *,
    anew: bool = False,
    properties: Mapping[str, str] = NO_PROPERTIES,
    applied: int | None = None,
) -> None:
    """Make the copy the table's content, together with its bookmark and further properties; `anew`: under a new id.

    `applied`: the offset of the last END that the copy has, of a table that was followed beyond it until now.

    Raises RefusedError when another writer changes rows meanwhile.
    """
    storage = lake.table_storage(table.name)
    storage.make_root()
    for _ in range(MAX_TRIES):
        there = _open_log(lake, table.name)
        log = there or DeltaLog(storage, Snapshot())
        described = _describe_table(table, bookmark, there, properties, anew=anew)
        # keep the last applied END, if the copy does not go back behind it: the table has the larger of both
        # (`LakeTable.last_applied`)
        reached = [txn_action(lake.bookmark_id, bookmark.lsn)]
        reached += [txn_action(lake.app_id, applied)] if applied is not None else []
        try:
            log.commit([*described, *_replace_files(log, copy), *reached], "COPY")
        except ConflictError:
            # compaction changes no row: the copy takes the place of what it has made
            if _has_changed_rows(log):
                break
        else:
            return
    raise _conflict_error(table.name)


def _has_changed_rows(log: DeltaLog) -> bool:
    """Whether commits after a snapshot did more than to move rows between files."""
    actions = [action for commit in log.refresh() for action in commit]
    return not all(isinstance(a, CommitInfo) or (isinstance(a, Add | Remove) and not a.data_change) for a in actions)


def _replace_files(log: DeltaLog, copy: CopiedFiles) -> Iterator[Action]:
    """The actions that put a copy in the place of the previous content, if there is any."""
    now = now_ms()
    yield from (file.remove_action(now) for file in log.snapshot.files.values())
    for file in copy:
        stats = file.statistics or json.dumps({"numRecords": file.rows})
        yield DataFile(file.path, file.bytes, file.rows, stats, now).add_action()


def _open_log(lake: Lake, name: TableName) -> DeltaLog | None:
    """The log for a copy's commit; None when there is none. A damaged log is cut back to its readable part.

    Raises PreconditionError when a property forbids our writes, or another table or a history lies there.
    """
    try:
        log = layout.open_owned_log(lake, name)
    except TableLostError:
        layout.refuse_history_mark(lake, name)
        # nobody can read the table: the copy follows its last readable version, or starts a new log
        truncate_log(lake.table_storage(name))
        log = layout.open_owned_log(lake, name)
    if log is None:
        layout.refuse_history_mark(lake, name)
    return _check_writable(lake, name, log)


def _check_writable(lake: Lake, name: TableName, log: DeltaLog | None) -> DeltaLog | None:
    if log is not None:
        layout.refuse_history(lake, name, log.snapshot)
        if log.write_blocker:
            raise log.write_blocker
    return log


def release_table(lake: Lake, name: TableName) -> None:
    """Remove the table's bookmark: its rows stay readable, but following it needs a new copy.

    Raises RefusedError when another writer interferes.
    """
    if opened := layout.open_table(lake, name):
        log, table = opened
        layout.refuse_history(lake, name, log.snapshot)
        properties = {key: value for key, value in log.snapshot.configuration.items() if key != SOURCE_PROPERTY}
        action = metadata_action(str(name), arrow_schema(table), properties, log.snapshot.table_id)
        _commit(log, [action], "RELEASE", name)


def _commit(log: DeltaLog, actions: Sequence[Action], operation: str, name: TableName) -> None:
    try:
        log.commit(actions, operation)
    except ConflictError:
        raise _conflict_error(name) from None


def _conflict_error(name: TableName) -> RefusedError:
    return RefusedError(f"another writer has written to {name}", "stop it, then bootstrap again")


def _describe_table(
    table: Table, bookmark: Bookmark, log: DeltaLog | None, properties: Mapping[str, str], *, anew: bool
) -> list[Action]:
    # its LSN is a `txn` action
    source = {name: value for name, value in bookmark.as_json().items() if name != "lsn"}
    own = {TABLE_PROPERTY: json.dumps(table.as_json()), SOURCE_PROPERTY: json.dumps(source), **properties}
    schema, name = arrow_schema(table), str(table.name)
    if log is None:
        return create_actions(name, schema, PROPERTIES | own, FEATURES)
    kept = {**log.snapshot.configuration, **own}
    if SOURCE_PROPERTY in log.snapshot.configuration and not anew:
        return [metadata_action(name, schema, kept, log.snapshot.table_id)]
    # it was released or stopped, or its capture starts anew. A new id tells followers that this is another table,
    # perhaps with other columns. Drop the schema LSN: the old table may have had a change beyond the new copy
    kept.pop(SCHEMA_PROPERTY, None)
    return create_actions(name, schema, kept, [*FEATURES, *log.snapshot.writer_features])
