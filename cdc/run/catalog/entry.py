"""What a catalog is told of a table of the lake, and what a catalog does."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql.types import DataType

from cdc.columns.types.spark_types import spark_type
from cdc.core.table import Table, TableName
from cdc.run.catalog.comments import TableComments
from cdc.sinks.lake.cloud_settings import AzureSettings, split_path
from cdc.sinks.lake.layout import Lake

PIPELINE: Final = "cdc.pipeline"
"""The property of a registered table that names the pipeline whose it is."""
SHAPE: Final = "cdc.shape"
"""The property that tells one form of an entry from another."""
_ODD: Final = re.compile(r"[^a-z0-9_]")

Place = tuple[str, str]
"""Database and name of a table in a catalog."""


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    name: str
    type: DataType
    comment: str


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table, view or history of the lake as a catalog has it."""

    of: TableName
    place: Place
    location: str
    columns: tuple[CatalogColumn, ...]
    comment: str

    @property
    def shape(self) -> str:
        """A short text that is another one as soon as anything here is."""
        told = [self.location, self.comment, *([c.name, c.type.json(), c.comment] for c in self.columns)]
        return hashlib.sha256(json.dumps([*self.place, *told]).encode()).hexdigest()[:16]


class Catalog(Protocol):
    """Raises UnreachableError when the catalog does not answer, other CdcErrors for what it refuses."""

    def list_own(self) -> Mapping[Place, str]:
        """The tables that this pipeline has registered, each with its shape."""

    def put(self, entry: CatalogEntry) -> None:
        """Register a table, or tell its new shape. Raises PreconditionError when another one has its place."""

    def remove(self, place: Place) -> None:
        """Take a table of ours out of the catalog; its files stay."""


def make_entry(lake: Lake, table: Table, comments: TableComments, prefix: str) -> CatalogEntry:
    """What a catalog is told of a table."""
    return CatalogEntry(
        table.name,
        choose_place(table.name, prefix),
        _locate(lake, lake.folder(table.name)),
        tuple(CatalogColumn(c.name, spark_type(c), comments.columns.get(c.name, "")) for c in table.columns),
        comments.table,
    )


def _locate(lake: Lake, folder: str) -> str:
    """The table's folder as Hadoop spells it."""
    if lake.access is None:
        # not encoded: Hadoop takes a percent sign for one of the name
        return f"file:{Path(folder).absolute()}"
    if not folder.startswith(AzureSettings.scheme):
        return folder
    container, path = split_path(folder)
    account = lake.access.account if isinstance(lake.access, AzureSettings) else None
    return f"abfss://{container}@{account}.dfs.core.windows.net/{path}"


def choose_place(name: TableName, prefix: str) -> Place:
    """Where a table is in a catalog. Names have a catalog's letters: others become `_`."""
    return f"{prefix}{_plain(name.schema)}", _plain(name.table)


def _plain(name: str) -> str:
    return _ODD.sub("_", name.lower())
