"""Where a pipeline's Delta tables lie, and what their logs remember for the toolkit.

A table has the source's columns and no others. Its name, kinds and key are a table property; the bookmark of its copy
and the last END applied are `txn` actions (Delta protocol, "Transaction Identifiers") of the very commits that wrote
the rows.
"""

import json
import string
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from cdc.core.errors import PreconditionError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table, TableName

TABLE_PROPERTY = "cdc.table"
SOURCE_PROPERTY = "cdc.source"
OWN = "_cdc"
_PLAIN = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True, slots=True)
class Lake:
    """The folder of one pipeline's tables, and the ids under which their logs keep positions."""

    path: str
    pipeline: str
    generation: int

    def folder(self, name: TableName) -> str:
        """The table's folder: no name can leave the lake or meet another's."""
        return f"{self.path.rstrip('/')}/{_encoded(name.schema)}/{_encoded(name.table)}"

    def own_folder(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{OWN}/{name}"

    @property
    def app_id(self) -> str:
        """Under this id a table's version of `txn` is the offset of the last END applied."""
        return f"cdc/{self.pipeline}/{self.generation}"

    @property
    def bookmark_id(self) -> str:
        """Under this id it is the LSN of the copy's bookmark."""
        return f"{self.app_id}/bookmark"


def open_table(folder: str) -> DeltaTable | None:
    """The table in this folder as it stands now, or None."""
    try:
        return DeltaTable(folder)
    except TableNotFoundError:
        return None


def described(delta: DeltaTable) -> Table | None:
    """The captured table that this one follows, or None when it is not ours."""
    text = delta.metadata().configuration.get(TABLE_PROPERTY)
    return Table.from_json(json.loads(text)) if text else None


def bookmark(lake: Lake, delta: DeltaTable) -> Bookmark | None:
    """The bookmark of the copy that the table stands on, or None while it has none."""
    lsn = delta.transaction_version(lake.bookmark_id)
    source = delta.metadata().configuration.get(SOURCE_PROPERTY)
    if lsn is None or not source:
        return None
    return Bookmark.from_json({**json.loads(source), "lsn": Lsn(lsn)})


def owned(lake: Lake, name: TableName) -> DeltaTable | None:
    """The follower's own table of this name, None when there is none.

    Raises PreconditionError when another table lies in its place.
    """
    folder = lake.folder(name)
    delta = open_table(folder)
    if delta is None:
        return None
    found = described(delta)
    if found is None or found.name != name:
        raise PreconditionError(f"{folder} holds a table that is not this follower's", "choose another path for it")
    return delta


def row_count(folder: str, version: int) -> int:
    """The rows of a table at one version, without Spark; what deletion vectors mark is not counted."""
    query = QueryBuilder().register("rows", DeltaTable(folder, version=version))
    return int(pa.table(query.execute("SELECT count(*) AS n FROM rows").read_all())["n"][0].as_py())


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
