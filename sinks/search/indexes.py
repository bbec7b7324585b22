"""The indexes of one follower: their names, their creation, and the note in each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError

from cdc.core.errors import TableStoppedError
from cdc.core.table import Table, TableName
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.client import describe_error, find_failure
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import IndexNote
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.search.products import Product
from cdc.sinks.search.shape import IndexShape, list_types
from cdc.sinks.search.table_shapes import shape_of


@dataclass(frozen=True, slots=True)
class TableIndex:
    """The index behind a table's alias, and its note."""

    index: str
    note: IndexNote


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of one follower; a table's index is searched by an alias.

    `generation`: the end of the aliases of indexes that nobody searches: built beside the others, or kept of before.
    """

    cluster: Cluster
    owner: Owner
    prefix: str
    settings: ClusterSettings
    generation: str = ""

    def shape_of(self, table: TableName) -> IndexShape:
        """What the settings say of the table's index."""
        return shape_of(self.settings, table)

    def name_of(self, table: TableName) -> str:
        """The alias under which the table is searched."""
        return layout.index_name(self.prefix, table) + self.generation

    def prepare_own(self, client: OpenSearch) -> None:
        """Create the follower's own indexes."""
        settings = {"index": {"number_of_shards": 1, "number_of_replicas": self.settings.replicas}}
        own = {
            layout.positions_index(self.prefix): layout.POSITION_MAPPING,
            layout.refusals_index(self.prefix): layout.REFUSAL_MAPPING,
        }
        for name, mapping in own.items():
            if not client.indices.exists(index=name):
                client.indices.create(index=name, body={"mappings": mapping, "settings": settings})

    def note(self, client: OpenSearch, name: TableName) -> IndexNote | None:
        """Read the note of the table's index; None if there is none. Raises TableStoppedError if it is not ours."""
        index = self.name_of(name)
        found = list(_read_notes(client, index))
        if not found:
            return None
        [note, *_] = found
        if note is None or note.owner != self.owner or note.table.name != name:
            raise TableStoppedError(
                f"{name}: index {index} is there already and is not this follower's",
                "choose another prefix, or delete it",
            )
        return note

    def of_tables(self, client: OpenSearch) -> Mapping[TableName, TableIndex]:
        """Find the index of every table that has one under its alias, closed ones included."""
        only = {"filter_path": "*.mappings._meta,*.aliases", "expand_wildcards": "all"}
        found = client.indices.get(index=f"{self.prefix}-*", params=only)
        named = [
            (index, each.get("aliases", ()), IndexNote.from_meta(each.get("mappings", {}).get("_meta")))
            for index, each in found.items()
        ]
        return {
            note.table.name: TableIndex(index, note)
            for index, names, note in named
            if note and note.owner == self.owner and self.name_of(note.table.name) in names
        }

    def add_fields(self, client: OpenSearch, note: IndexNote) -> None:
        """Add fields for new columns; older documents do not have them, which means null."""
        mapping = layout.table_mapping(note.as_meta(), self.shape_of(note.table.name).mapping_of(note.table))
        with self._fields_of(note.table.name):
            client.indices.put_mapping(index=self.name_of(note.table.name), body=mapping)

    def put_note(self, client: OpenSearch, index: str, note: IndexNote) -> None:
        client.indices.put_mapping(index=index, body={"_meta": note.as_meta()})

    def check_filled(self, client: OpenSearch, name: TableName, index: str) -> None:
        """Raise TableStoppedError if `index`, which a copy has filled, is not the one that was created for it.

        One that is deleted meanwhile is created again by the next document, with a part of the rows and no note.
        """
        if not any(_read_notes(client, index)):
            told = f"{name}: index {index} was deleted while it was filled"
            raise TableStoppedError(told, "`cdc follow` copies it again from the lake by itself")

    def forget_copies(self, client: OpenSearch, found: Sequence[TableIndex]) -> None:
        """Remove the bookmarks of these indexes: they count as not copied."""
        for each in found:
            if each.note.bookmark:
                self.put_note(client, each.index, replace(each.note, bookmark=None))

    def begin_copy(self, client: OpenSearch, table: Table) -> tuple[list[str], str]:
        """Create the index for a copy; returns the indexes that are behind the alias now, and the new one."""
        alias = self.name_of(table.name)
        behind = list(client.indices.get_alias(index=alias, params={"ignore_unavailable": "true"}))
        # closed ones included: their names are in use
        only = {"filter_path": "*.mappings._meta,*.aliases", "expand_wildcards": "all"}
        there = client.indices.get(index=layout.copies(alias), params=only)
        # from a copy that was killed; one that is kept of before a rebuild has an alias
        for unfinished in [index for index, each in there.items() if not each.get("aliases")]:
            client.indices.delete(index=unfinished)
        fresh = layout.copy_name(alias, max(map(layout.copy_number, [*there, alias])) + 1)
        body = self.define(client, table, IndexNote(self.owner, table, shape=self.shape_of(table.name).name).as_meta())
        # without an old index, searches may see the new one grow
        body["aliases"] = {} if behind else {alias: {}}
        with self._fields_of(table.name):
            client.indices.create(index=fresh, body=body)
        return behind, fresh

    def define(self, client: OpenSearch, table: Table, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The definition of a table's index, with this `_meta`."""
        shape, s = self.shape_of(table.name), self.settings
        fields, given = shape.mapping_of(table), shape.given
        # one that says nothing of its index has no type that only one product has
        kept = {} if shape.is_default else Product.ask(client).settings_for(list_types(fields))
        own = layout.table_settings(s.shards, s.replicas, s.deletes_remembered_hours)
        settings = {**own, **given.flat_settings, **kept}
        return {"mappings": layout.table_mapping(meta, fields), "settings": {"index": settings}}

    def put_in_place(self, client: OpenSearch, name: TableName, index: str, old: Sequence[str]) -> None:
        """Switch the alias from the old indexes to the new one."""
        # in one request: no search finds both, or neither
        removals = [{"remove_index": {"index": each}} for each in old]
        addition = {"add": {"index": index, "alias": self.name_of(name)}}
        client.indices.update_aliases(body={"actions": [*removals, addition]})

    @contextmanager
    def _fields_of(self, name: TableName) -> Iterator[None]:
        """Translate the refusal of a request that defines a table's index to TableStoppedError."""
        try:
            yield
        except RequestError as error:
            body = error.info if isinstance(error.info, dict) else {}
            # a closed index has the same status, and is no problem of the table's definition
            if find_failure(self.cluster, body.get("error")):
                raise
            raise TableStoppedError(
                f"{name}: OpenSearch refuses its index: {describe_error(error)}",
                "mend that, by another name of a column, say; or name the table under leave_out of this follower",
            ) from error


def _read_notes(client: OpenSearch, index: str) -> Iterator[IndexNote | None]:
    """The note of each index with this name or alias; None of one that the toolkit did not make."""
    found = client.indices.get_mapping(index=index, params={"ignore_unavailable": "true"})
    for each in found.values():
        yield IndexNote.from_meta(each.get("mappings", {}).get("_meta"))
