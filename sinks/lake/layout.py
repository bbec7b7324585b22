"""Where a pipeline's Delta tables lie, and the facts that their logs keep for the toolkit.

A table has exactly the source's columns. A table property holds its name, column kinds and key. The copy's bookmark and
the last applied END are `txn` actions (Delta protocol, "Transaction Identifiers") in the commits that wrote the rows.
"""

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table, TableName
from cdc.sinks.lake.delta.actions import Action
from cdc.sinks.lake.delta.log import DeltaLog, LogDamagedError
from cdc.sinks.lake.delta.schema import create_actions
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.settings import StoreSettings
from cdc.sinks.lake.storage.base import Storage, open_storage

TABLE_PROPERTY = "cdc.table"
SOURCE_PROPERTY = "cdc.source"
SCHEMA_PROPERTY = "cdc.schema_lsn"
HISTORY_PROPERTY = "cdc.history"
"""Says that a table is a history, and of which table (`history/facts.py`)."""
HISTORY_MARK = "_history"
"""A file in the folder of a history, which says so even when its log is damaged. Readers of Delta skip it."""
METADATA = "_cdc"
NO_PROPERTIES: Final[Mapping[str, str]] = {}
_PLAIN = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True, slots=True)
class Lake:
    """The folder of one pipeline's tables, and the ids of their `txn` actions.

    `access`: settings of the object store when the path is one in it; None for a local folder. `metadata`:
    the folder of the toolkit's own tables.
    """

    path: str
    pipeline: str
    access: StoreSettings | None = None
    metadata: str = METADATA

    @property
    def of_views(self) -> "Lake":
        """The same lake for its views: their tables lie beside the others, with cuts and stops of their own."""
        return replace(self, metadata=f"{METADATA}/views")

    @property
    def of_rebuilt_views(self) -> "Lake":
        """The same for views that are built beside, which nobody reads."""
        return replace(self, metadata=f"{METADATA}/rebuilt")

    def folder(self, name: TableName) -> str:
        """The table's folder; no name can leave the lake or collide with another."""
        return f"{self.path.rstrip('/')}/{folder_name(name)}"

    def metadata_folder(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{self.metadata}/{name}"

    def table_storage(self, name: TableName) -> Storage:
        return open_storage(self.folder(name), self.access)

    def metadata_storage(self, name: str) -> Storage:
        return open_storage(self.metadata_folder(name), self.access)

    @property
    def app_id(self) -> str:
        """The `txn` id whose version is the offset of the last applied END."""
        # on disk: lakes hold their positions under this id, so its last part cannot change
        return f"cdc/{self.pipeline}/1"

    @property
    def bookmark_id(self) -> str:
        """The `txn` id whose version is the LSN of the copy's bookmark."""
        return f"{self.app_id}/bookmark"


def table_of(snapshot: Snapshot) -> Table | None:
    """The captured table that this Delta table holds; None when it is not ours."""
    text = snapshot.configuration.get(TABLE_PROPERTY)
    return Table.from_json(json.loads(text)) if text else None


def bookmark(lake: Lake, snapshot: Snapshot) -> Bookmark | None:
    """The bookmark of the table's copy; None without a copy."""
    lsn = snapshot.transactions.get(lake.bookmark_id)
    source = snapshot.configuration.get(SOURCE_PROPERTY)
    # a released table keeps the `txn`, which no action can remove, and loses the property
    if lsn is None or not source:
        return None
    return Bookmark.from_json({**json.loads(source), "lsn": Lsn(lsn)})


def open_table(lake: Lake, name: TableName, version: int | None = None) -> tuple[DeltaLog, Table] | None:
    """Open the follower's table of this name, now or at a version: its log, and what it holds; None if there is none.

    Raises PreconditionError when another table lies there, TableLostError when the log is unreadable.
    """
    try:
        log = DeltaLog.open(lake.table_storage(name), version)
    except LogDamagedError as error:
        raise TableLostError(name, error.what) from error
    if log is None:
        return None
    table = table_of(log.snapshot)
    if table is None or table.name != name:
        raise PreconditionError(
            f"{lake.folder(name)} holds a table that is not this follower's", "choose another path for it"
        )
    return log, table


def open_owned_log(lake: Lake, name: TableName, version: int | None = None) -> DeltaLog | None:
    """The log of such a table alone; raises as `open_table` does."""
    opened = open_table(lake, name, version)
    return opened[0] if opened else None


def require_table(lake: Lake, name: TableName, version: int | None = None) -> Table:
    """The table that the follower's Delta table of this name holds, now or at a version.

    Raises TableLostError when it is gone or unreadable, PreconditionError when another table lies there.
    """
    opened = open_table(lake, name, version)
    if opened is None:
        raise TableLostError(name, "it is gone from the lake")
    return opened[1]


def refuse_history(lake: Lake, name: TableName, snapshot: Snapshot) -> None:
    """Raise PreconditionError when this table is a history: nothing else takes its place, whatever the file says."""
    if is_history(snapshot):
        raise _history_error(lake, name)


def refuse_history_mark(lake: Lake, name: TableName) -> None:
    """The same by the folder's mark, which is there when the log cannot be read."""
    try:
        lake.table_storage(name).read(HISTORY_MARK)
    except FileNotFoundError:
        return
    raise _history_error(lake, name)


def _history_error(lake: Lake, name: TableName) -> PreconditionError:
    return PreconditionError(
        f"{name}: a history lies in {lake.folder(name)}, and nothing replaces it",
        f'leave the table out ("!{name}" in source.tables), or rename the table or view',
    )


def is_history(snapshot: Snapshot) -> bool:
    """Is this table a history, which only grows?"""
    return HISTORY_PROPERTY in snapshot.configuration


def schema_lsn(snapshot: Snapshot) -> Lsn:
    """LSN of the last schema change that the table includes; 0 without one."""
    return Lsn(int(snapshot.configuration.get(SCHEMA_PROPERTY, 0)))


def add_columns_actions(
    snapshot: Snapshot, table: Table, lsn: Lsn, further: Mapping[str, str] = NO_PROPERTIES
) -> list[Action]:
    """The actions that give a table the new columns of a schema change at this LSN, and `further` properties."""
    own = {TABLE_PROPERTY: json.dumps(table.as_json()), SCHEMA_PROPERTY: str(lsn), **further}
    properties = {**snapshot.configuration, **own}
    # with the features that the table has: a protocol action replaces the one before
    return create_actions(str(table.name), arrow_schema(table), properties, snapshot.writer_features, snapshot.table_id)


def folder_name(name: TableName) -> str:
    """The table's path below a folder of many tables."""
    return f"{encode_name(name.schema)}/{encode_name(name.table)}"


def encode_name(name: str) -> str:
    """Encode all bytes but letters, digits and `_` as `-` and two hex digits; a leading `_` as well.

    Spark skips folders that begin with `_` or a dot. Object stores and delta-rs decode a percent sign once too often.
    """
    encoded_name = name.encode()
    encoded = (
        chr(byte) if chr(byte) in _PLAIN and (at or chr(byte) != "_") else f"-{byte:02X}"
        for at, byte in enumerate(encoded_name)
    )
    return "".join(encoded)
