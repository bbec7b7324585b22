"""The shape of a table's index: its fields, their mappings, and a document's id and routing."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.rows.documents import key_documents
from cdc.columns.rows.held import Held
from cdc.columns.types.registry import write_objects
from cdc.core.table import Column, Kind, Table
from cdc.sinks.opensearch.bulk import Addresses, shorten
from cdc.sinks.opensearch.fields import field_of, write_indexed
from cdc.sinks.search.settings import IndexSettings
from cdc.sinks.search.templates import Template

KEY_FIELD: Final = "_cdc_key"
"""The field of the row's key, by which a document is found whose id or routing has changed."""
OBJECTS: Final = frozenset({"object", "nested", "flat_object", "flattened"})
"""Types of fields that hold JSON itself, not a text of it."""
_VALUES: Final = frozenset({"geo_point", "geo_shape", "knn_vector", "dense_vector", "rank_features", "sparse_vector"})
"""Types that may have JSON, too."""


@dataclass(frozen=True, slots=True)
class IndexShape:
    """What the settings say of one index, and what follows for its documents; the same for all of a table's rows."""

    given: IndexSettings = field(default_factory=IndexSettings)

    @property
    def is_default(self) -> bool:
        return self.given == IndexSettings()

    @property
    def name(self) -> str:
        """A text that is another one for every other shape; empty of the default."""
        if self.is_default:
            return ""
        told = json.dumps(self.given.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def id(self) -> Template | None:
        return Template.parse(self.given.id) if self.given.id is not None else None

    @property
    def routing(self) -> Template | None:
        return Template.parse(self.given.routing) if self.given.routing is not None else None

    def columns(self, table: Table) -> tuple[Column, ...]:
        """The columns that the index has, under their own names."""
        given = self.given
        if given.columns:
            return tuple(each for each in table.columns if each.name in given.columns or each.name in table.key)
        return tuple(each for each in table.columns if each.name not in given.leave_out_columns)

    def field_of(self, column: str) -> str:
        return self.given.names.get(column, column)

    def key_fields(self, table: Table) -> list[str]:
        return [self.field_of(name) for name in table.key]

    def can_move(self, table: Table) -> bool:
        """Whether a row's document may get another id or routing while the row's key stays."""
        named = [name for each in (self.id, self.routing) if each for name in each.columns]
        return not {*named} <= {*table.key}

    def mapping_of(self, table: Table) -> dict[str, Any]:
        """The fields of the index."""
        own = {self.field_of(each.name): dict(field_of(each)) for each in self.columns(table)}
        key = {KEY_FIELD: {"type": "keyword"}} if self.can_move(table) else {}
        return {**own, **self.given.properties, **key}

    def documents(self, rows: pa.Table, table: Table) -> pa.Array:
        """Write rows as the documents of this index."""
        columns = self.columns(table)
        fields = tuple(replace(each, name=self.field_of(each.name)) for each in columns)
        chosen = rows.select([each.name for each in columns]).rename_columns([each.name for each in fields])
        if self.can_move(table):
            fields = (*fields, Column(KEY_FIELD, Kind.TEXT))
            chosen = chosen.append_column(KEY_FIELD, self.row_keys(rows, table))
        return write_objects(chosen, fields, partial(_write, as_json=self._find_json(fields)))

    def _find_json(self, fields: tuple[Column, ...]) -> frozenset[str]:
        """The fields whose column is JSON, and that hold it as JSON."""
        given = self.given.properties
        return frozenset(
            each.name
            for each in fields
            if each.kind is Kind.JSON and not each.array and holds_json(given.get(each.name))
        )

    def row_keys(self, rows: pa.Table, table: Table) -> pa.Array:
        """The texts of KEY_FIELD."""
        return shorten(key_documents(rows, table))

    def addresses(self, rows: pa.Table, table: Table) -> Addresses:
        """Ids and routings of rows; of their keys alone, unless the shape lets documents move."""
        ids = shorten(self.id.write(rows)) if self.id else shorten(key_documents(rows, table))
        return Addresses(ids, self.routing.write(rows) if self.routing else None)

    def held(self, table: Table) -> Held | None:
        """What the index holds of a table; None if that is all of it as it is."""
        if self.is_default and not any(each.kind is Kind.GEOMETRY for each in table.columns):
            return None
        columns = tuple(self._as_read(each) for each in self.columns(table))
        if self.can_move(table):
            columns = (*columns, Column(KEY_FIELD, Kind.TEXT))
        read = Table(table.name, columns, tuple(self.key_fields(table)))
        return Held(read, self.documents, f"index {self.name}", self._identify)

    def _identify(self, keys: pa.Table, table: Table) -> pa.Array:
        """The names of documents: their ids, unless these may change while the key stays."""
        return self.row_keys(keys, table) if self.can_move(table) else self.addresses(keys, table).ids

    def _as_read(self, column: Column) -> Column:
        # what is JSON in a document is read back as the text of it
        kind = Kind.TEXT if column.kind in (Kind.GEOMETRY, Kind.JSON) else column.kind
        return replace(column, name=self.field_of(column.name), kind=kind)


DEFAULT: Final = IndexShape()


def holds_json(mapping: Mapping[str, Any] | None) -> bool:
    """Does a field of this mapping take JSON itself?"""
    return mapping is not None and ("properties" in mapping or mapping.get("type") in OBJECTS | _VALUES)


def list_types(properties: Mapping[str, Any]) -> Iterator[str]:
    """The types of all fields, also of those within others."""
    for mapping in properties.values():
        if isinstance(mapping, Mapping):
            yield str(mapping.get("type", "object"))
            for within in ("properties", "fields"):
                yield from list_types(mapping.get(within, {}))


def _write(values: pa.ChunkedArray | pa.Array, column: Column, as_json: frozenset[str]) -> pa.Array:
    if column.name not in as_json:
        return write_indexed(values, column)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    # a document is one line of a request; within the strings of JSON are no line breaks
    return pc.fill_null(pc.replace_substring_regex(array, r"[\r\n]", " "), "null")
