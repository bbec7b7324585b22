"""A table's copy: written by many tasks as Parquet files, which then become the table's content in one commit."""

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.copied_file import CopiedFile
from cdc.core.errors import RefusedError, TableLostError
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.delta import data_files, statistics
from sinks.lake.delta.checkpoint_reader import LOG
from sinks.lake.delta.log import Conflict, DeltaLog, cut_back
from sinks.lake.delta.schema import create_actions, metadata_action
from sinks.lake.delta.snapshot import Action, DataFile, State, now_ms, reached
from sinks.lake.layout import SCHEMA_PROPERTY, SOURCE_PROPERTY, TABLE_PROPERTY, Lake
from sinks.lake.storage.base import Storage

PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
FEATURES = ("deletionVectors", "changeDataFeed")

COPY: Final = "copy-"
"""What the names of copied files begin with."""
LEFT_MS: Final = 24 * 60 * 60 * 1000
"""What is younger may be somebody's who is about to name it."""

CopiedFiles = Sequence[CopiedFile]


@dataclass(frozen=True, slots=True)
class CopyWriter:
    """Writes a part of a table's copy; it travels to Spark's tasks."""

    table: Table
    storage: Storage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> CopiedFile:
        """Write the rows, of the table's Arrow schema, as one file; only a row group of them is in memory at a time."""
        schema = arrow_schema(self.table)
        bounded = statistics.indexed(schema.names, self.table.key)
        made = data_files.write_in_parts(self.storage, f"{COPY}{uuid.uuid4()}.parquet", batches, schema, bounded)
        return CopiedFile(made.path, made.size, made.rows, made.stats)


def room_for_copy(lake: Lake, name: TableName) -> Storage:
    """The table's folder, without what copies that were never taken in have left there more than a day ago.

    Of a table that has a log, `upkeep.sweep` finds that. Not sooner: another machine may be at the same copy. Raises
    PreconditionError where no copy could be taken in.
    """
    storage = lake.table(name)
    storage.make()
    with suppress(TableLostError):
        _check_writable(layout.owned(lake, name))
    if not storage.names(LOG):
        horizon = now_ms() - LEFT_MS
        written = storage.written("").items()
        storage.delete([path for path, at in written if path.removeprefix(".").startswith(COPY) and at < horizon])
    return storage


def take_in(lake: Lake, table: Table, copy: CopiedFiles, bookmark: Bookmark, *, anew: bool = False) -> None:
    """Make the copy the table's content, with its bookmark in the same commit; `anew`: as another table, by its id."""
    storage = lake.table(table.name)
    storage.make()
    log, now = _log_for(lake, table.name), now_ms()
    actions = _description(table, bookmark, log, anew=anew)
    if log is not None:
        actions += [file.removed(now) for file in log.state.files.values()]
    actions += [_data_file(file, now).added() for file in copy]
    # the last END applied is left as it is: a table has what either of the two says (`Standing.applied`)
    actions.append(reached(lake.bookmark_id, bookmark.lsn))
    _committed(log or DeltaLog(storage, State()), actions, "COPY", table.name)


def _log_for(lake: Lake, name: TableName) -> DeltaLog | None:
    """The log that a copy goes into, None where there is none yet; of a log that cannot be read, what can be.

    Raises PreconditionError where others keep us from writing to it, or when another table lies in its place.
    """
    try:
        log = layout.owned(lake, name)
    except TableLostError:
        # nobody can read the table: the copy begins behind the last version that is whole, or a new log
        cut_back(lake.table(name))
        log = layout.owned(lake, name)
    return _check_writable(log)


def _check_writable(log: DeltaLog | None) -> DeltaLog | None:
    if log is not None and log.forbidden:
        raise log.forbidden
    return log


def release(lake: Lake, name: TableName) -> None:
    """Take the table's bookmark away: what it holds stays to be read, and is no copy to go on from.

    Raises RefusedError when somebody else writes it meanwhile.
    """
    log = layout.owned(lake, name)
    if log is not None:
        kept = {key: value for key, value in log.state.configuration.items() if key != SOURCE_PROPERTY}
        described = layout.described(log.state)
        assert described is not None
        action = metadata_action(str(name), arrow_schema(described), kept, log.state.table_id)
        _committed(log, [action], "RELEASE", name)


def _committed(log: DeltaLog, actions: Sequence[Action], operation: str, name: TableName) -> None:
    try:
        log.commit(actions, operation)
    except Conflict:
        raise RefusedError(f"another writer has written to {name}", "stop it, then bootstrap again") from None


def _description(table: Table, bookmark: Bookmark, log: DeltaLog | None, *, anew: bool) -> list[Action]:
    source = {"system_identifier": bookmark.system_identifier, "timeline": bookmark.timeline}
    own = {TABLE_PROPERTY: json.dumps(table.as_json()), SOURCE_PROPERTY: json.dumps(source)}
    schema, name = arrow_schema(table), str(table.name)
    if log is None:
        return create_actions(name, schema, PROPERTIES | own, FEATURES)
    properties = {**log.state.configuration, **own}
    if SOURCE_PROPERTY in log.state.configuration and not anew:
        return [metadata_action(name, schema, properties, log.state.table_id)]
    # it was released, or stopped, or its capture starts anew: by another id, whoever followed it knows that it is
    # another table, of other columns perhaps. The old one may have taken in a schema change behind the new one's LSN
    properties.pop(SCHEMA_PROPERTY, None)
    return create_actions(name, schema, properties, [*FEATURES, *log.state.protocol.get("writerFeatures", ())])


def _data_file(file: CopiedFile, now: int) -> DataFile:
    return DataFile(file.path, file.bytes, file.rows, file.statistics or json.dumps({"numRecords": file.rows}), now)
