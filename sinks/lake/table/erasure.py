"""Takes rows that are deleted already out of a table's files, and then its past: until then both have their bytes.

A deleted row stays in its data file, behind a deletion vector, and in the files of older versions. The first step
writes the files anew that hold it, as any compaction does. The second one leaves the present version alone. Between
them readers have to go on to that version: whoever is at an older one has nothing to read any more.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.errors import RefusedError
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.checkpoint import Checkpoint, write_checkpoint
from cdc.sinks.lake.delta.checkpoint_reader import LOG
from cdc.sinks.lake.delta.damage import reading
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.retention import list_ours, live_paths
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.writer import TableWriter

Holds = Callable[[pa.Table], pa.Array]
"""Which of these rows, of the key's columns alone, are to be erased."""
TRIES: Final = 5


def read_versions(storage: Storage, table: Table, holds: Holds) -> Iterator[pa.Table]:
    """The rows to erase in every data file and change file of the folder: live or deleted, of any version."""
    for path in list_ours(storage):
        if not path.endswith(".parquet"):
            continue
        with reading(table.name, path):
            yield from _read_matching(storage, path, table, holds)


def _read_matching(storage: Storage, path: str, table: Table, holds: Holds) -> Iterator[pa.Table]:
    schema = arrow_schema(table)
    file = pq.ParquetFile(storage.open(path), pre_buffer=True)
    names = [name for name in table.column_names if name in file.schema_arrow.names]
    if not {*table.key} <= {*names}:
        return
    for group in range(file.num_row_groups):
        keys = conform(file.read_row_group(group, list(table.key)), pa.schema([schema.field(n) for n in table.key]))
        mask = holds(keys)
        if pc.any(mask).as_py():
            yield conform(file.read_row_group(group, names).filter(mask), schema)


def has_live(writer: TableWriter, names: Sequence[str], holds: Holds) -> bool:
    """Is a row to erase still in the present version?"""
    files, table = writer.snapshot.files.values(), writer.table
    parts = (part for file in files for part in live_rows(writer.storage, Share(file), table, names))
    return any(pc.any(holds(part)).as_py() for part in parts)


def rewrite_deleted(writer: TableWriter, names: Sequence[str] = (), holds: Holds | None = None) -> int:
    """Write the files anew whose deleted rows are to be erased, without any deleted row; returns their number.

    Without `holds`: all files with deleted rows. Raises RefusedError while another writer changes them.
    """
    files = [
        file
        for file in writer.snapshot.files.values()
        if file.vector and (holds is None or _has(writer, file.path, names, holds))
    ]
    for file in files:
        if not any(compact_files(writer, [file.path]) for _ in range(TRIES)) and file.path in writer.snapshot.files:
            raise RefusedError(f"other writers kept {writer.table.name} busy", "stop what else writes to the lake")
    return len(files)


def _has(writer: TableWriter, path: str, names: Sequence[str], holds: Holds) -> bool:
    schema = pa.schema([arrow_schema(writer.table).field(name) for name in names])
    with reading(writer.table.name, path):
        groups = data_files.read_groups(writer.storage, path, names)
        return any(pc.any(holds(conform(rows, schema))).as_py() for rows in groups)


def delete_past(log: DeltaLog) -> int:
    """Leave the present version alone: a checkpoint of it, its commit and its files; returns how many others went.

    Nobody else may write the table meanwhile: files that no commit names yet go, too.
    """
    version = log.snapshot.version
    # it names no removed file, since there will be none
    write_checkpoint(log, Checkpoint(log.snapshot, [], version))
    dead = {*list_ours(log.storage)} - live_paths(log.snapshot)
    older = [
        f"{LOG}/{name}" for name in log.storage.list_names(LOG) if name[:20].isdecimal() and int(name[:20]) < version
    ]
    # files first: after a kill, the log still names them
    log.storage.delete(dead)
    log.storage.delete(older)
    return len(dead) + len(older)
