"""The row that is to be erased, and where it may be."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.rows.documents import documents, key_documents
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.signatures import SigningKey
from cdc.run.trace.source_row import SourceSighting, read_source_row
from cdc.run.trace.trace import find_table
from cdc.run.views.kept_views import find_views_over
from cdc.sinks.lake.history.epochs import Epoch, list_epochs
from cdc.sinks.lake.history.shape import tracked_columns


@dataclass(frozen=True)
class ErasureTarget:
    """A row by its key. `name`: what its erasure is called, which says nothing of it."""

    table: Table
    key: pa.RecordBatch
    name: str

    @cached_property
    def document(self) -> str:
        """Its key as JSON: the document's id in an index, and the key in the latest log."""
        return str(key_documents(self.key, self.table)[0].as_py())

    @cached_property
    def _values(self) -> dict[str, object]:
        return dict(json.loads(self.document))

    def holds(self, rows: pa.Table) -> pa.Array:
        """Which of these rows, of any version, have the key."""
        return pc.equal(key_documents(rows, self.table), self.document)

    def is_key(self, key: bytes | None) -> bool:
        """Is this the key of a message about the row, or about a version of it?"""
        with suppress(ValueError, TypeError, AttributeError):
            return bool(self._values.items() <= json.loads(key or b"").items())
        return False


def find_target(
    pipeline: Pipeline, name: TableName, texts: list[str], signing: SigningKey
) -> tuple[ErasureTarget, SourceSighting]:
    """The row with this key, and what the source has of it.

    Raises ConfigurationError for what is no followed table with a key, or no key of it.
    """
    if pipeline.settings.is_view(name):
        raise ConfigurationError(f"{name} is a view: its rows are made of others", "name the table that has the row")
    table = find_table(pipeline, name)
    with pipeline.open_source() as connection:
        source = read_source_row(connection, table, texts, pipeline.settings.source.mask_key)
    document = str(key_documents(source.key, table)[0].as_py())
    return ErasureTarget(table, source.key, signing.name(str(name), document)), source


def list_epochs_of(pipeline: Pipeline, table: TableName) -> list[Epoch]:
    """The epochs of the table's history, kept or not. Raises PreconditionError for one that cannot be read."""
    epochs = list_epochs(pipeline.lake, table, pipeline.table_cuts.last())
    for epoch in epochs:
        if epoch.opened is None:
            raise PreconditionError(
                f"{epoch.name}, which may hold the row, cannot be read: {epoch.why}",
                "put it back, or remove its folder",
            )
    return epochs


def list_views_of(pipeline: Pipeline, target: ErasureTarget) -> list[TableName]:
    """The views that are made of the table or of its history."""
    if not pipeline.settings.views:
        return []
    sources = [target.table.name, *(epoch.name for epoch in list_epochs_of(pipeline, target.table.name))]
    return [name for name in find_views_over(pipeline, sources) if pipeline.settings.is_view(name)]


def of_history(table: Table) -> Table:
    """A history's table with the key of the table that it is of."""
    own = {column.name for column in tracked_columns(table)}
    return replace(table, key=tuple(name for name in table.key if name in own))


def to_documents(rows: pa.Table, table: Table) -> list[dict[str, object]]:
    return [json.loads(text) for text in documents(rows, table).to_pylist()]
