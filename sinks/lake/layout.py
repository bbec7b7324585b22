"""Where a pipeline's Delta tables lie, and what their logs remember for the toolkit.

A table has the source's columns and no others. Its name, kinds and key are a table property; the bookmark of its copy
and the last END applied are `txn` actions (Delta protocol, "Transaction Identifiers") of the very commits that wrote
the rows.
"""

import json
import string
from dataclasses import dataclass

from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table, TableName
from sinks.lake.delta.log import DeltaLog, LogDamagedError
from sinks.lake.delta.schema import create_actions
from sinks.lake.delta.snapshot import Action, State
from sinks.lake.settings import S3Settings
from sinks.lake.storage.base import Storage, storage_at

TABLE_PROPERTY = "cdc.table"
SOURCE_PROPERTY = "cdc.source"
SCHEMA_PROPERTY = "cdc.schema_lsn"
OWN = "_cdc"
_PLAIN = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True, slots=True)
class Lake:
    """The folder of one pipeline's tables, and the ids under which their logs keep positions.

    `access`: how the object store is reached whose `s3://bucket/prefix` the path is; None for a folder of the machine.
    """

    path: str
    pipeline: str
    generation: int
    access: S3Settings | None = None

    def folder(self, name: TableName) -> str:
        """The table's folder: no name can leave the lake or meet another's."""
        return f"{self.path.rstrip('/')}/{folder_name(name)}"

    def own_folder(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{OWN}/{name}"

    def table(self, name: TableName) -> Storage:
        """The files of a table."""
        return storage_at(self.folder(name), self.access)

    def own_table(self, name: str) -> Storage:
        """The files of a table of the toolkit's own."""
        return storage_at(self.own_folder(name), self.access)

    @property
    def app_id(self) -> str:
        """Under this id a table's version of `txn` is the offset of the last END applied."""
        return f"cdc/{self.pipeline}/{self.generation}"

    @property
    def bookmark_id(self) -> str:
        """Under this id it is the LSN of the copy's bookmark."""
        return f"{self.app_id}/bookmark"


def described(state: State) -> Table | None:
    """The captured table that this one follows, or None when it is not ours."""
    text = state.configuration.get(TABLE_PROPERTY)
    return Table.from_json(json.loads(text)) if text else None


def bookmark(lake: Lake, state: State) -> Bookmark | None:
    """The bookmark of the copy that the table stands on, or None while it has none."""
    lsn = state.transactions.get(lake.bookmark_id)
    source = state.configuration.get(SOURCE_PROPERTY)
    if lsn is None or not source:
        return None
    return Bookmark.from_json({**json.loads(source), "lsn": Lsn(lsn)})


def owned(lake: Lake, name: TableName, version: int | None = None) -> DeltaLog | None:
    """The log of the follower's own table of this name, now or at a version; None when there is no table.

    Raises PreconditionError when another table lies in its place, TableLostError when its log cannot be read.
    """
    try:
        log = DeltaLog.open(lake.table(name), version)
    except LogDamagedError as error:
        raise TableLostError(name, error.what) from error
    if log is None:
        return None
    found = described(log.state)
    if found is None or found.name != name:
        raise PreconditionError(
            f"{lake.folder(name)} holds a table that is not this follower's", "choose another path for it"
        )
    return log


def schema_lsn(state: State) -> Lsn:
    """That of the last schema change that the table took in; 0 where there was none."""
    return Lsn(int(state.configuration.get(SCHEMA_PROPERTY, 0)))


def widened(state: State, table: Table, lsn: Lsn) -> list[Action]:
    """The actions by which a table of ours gets the further columns that a schema change at this LSN brought."""
    own = {TABLE_PROPERTY: json.dumps(table.as_json()), SCHEMA_PROPERTY: str(lsn)}
    properties = {**state.configuration, **own}
    features = state.protocol.get("writerFeatures", ())
    return create_actions(str(table.name), arrow_schema(table), properties, features, state.table_id)


def folder_name(name: TableName) -> str:
    """The table's place below a folder of many tables."""
    return f"{_encoded(name.schema)}/{_encoded(name.table)}"


def _encoded(name: str) -> str:
    """The name with `-` and two hex digits a byte for all but letters, digits and `_`, and for a leading `_`.

    Spark skips folders that begin with `_` or a dot; object stores and delta-rs decode a percent sign once too often.
    """
    plain = name.encode()
    kept = (
        chr(byte) if chr(byte) in _PLAIN and (at or chr(byte) != "_") else f"-{byte:02X}"
        for at, byte in enumerate(plain)
    )
    return "".join(kept)
