"""A table's copy taken in: Parquet files that are there already become the table's content in one commit."""

import json
from collections.abc import Sequence

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction

from cdc.columns.spark_types import row_type
from cdc.core.copied_file import CopiedFile
from cdc.core.position import Bookmark
from cdc.core.table import Table
from sinks.lake.layout import SOURCE_PROPERTY, TABLE_PROPERTY, Lake, open_table

PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointInterval": "50",
}


CopiedFiles = Sequence[CopiedFile]


def take_in(lake: Lake, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None:
    """Make the copy the table's content, with its bookmark in the same commit."""
    folder = lake.folder(table.name)
    if open_table(folder) is None:
        _create(folder, table, bookmark)
    delta = DeltaTable(folder)
    delta.create_write_transaction(
        [_added(file) for file in copy],
        mode="overwrite",
        schema=delta.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction(lake.bookmark_id, bookmark.lsn)]),
    )


def _create(folder: str, table: Table, bookmark: Bookmark) -> None:
    schema = DeltaSchema.from_json(row_type(table).json())
    source = {"system_identifier": bookmark.system_identifier, "timeline": bookmark.timeline}
    own = {TABLE_PROPERTY: json.dumps(table.as_json()), SOURCE_PROPERTY: json.dumps(source)}
    DeltaTable.create(
        folder, schema, name=str(table.name), configuration=PROPERTIES | own, raise_if_key_not_exists=False
    )


def _added(file: CopiedFile) -> AddAction:
    """Statistics of rows only (Delta protocol, "Per-file Statistics"); bounds come with the first OPTIMIZE."""
    return AddAction(file.path, file.bytes, {}, 0, True, json.dumps({"numRecords": file.rows}))
