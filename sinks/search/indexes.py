"""The indexes of one follower: made, named, and what each says of itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError

from cdc.core.errors import TableStoppedError
from cdc.core.table import Table, TableName
from sinks.owner import Owner
from sinks.search import layout
from sinks.search.client import Cluster, describe_error, find_failure
from sinks.search.layout import IndexNote
from sinks.search.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class TableIndex:
    """The index behind a table's name, or of that name, and what it says of itself."""

    index: str
    note: IndexNote


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of one follower; those of tables are searched by an alias."""

    cluster: Cluster
    owner: Owner
    prefix: str
    settings: SearchSettings

    def name_of(self, table: TableName) -> str:
        """The name under which the table is searched: an alias."""
        return layout.index_name(self.prefix, table)

    def prepare_own(self, client: OpenSearch, *, renew: bool) -> None:
        """Make those that are no table's; `renew`: give those that are there the fields of this version of ours."""
        settings = {"index": {"number_of_shards": 1, "number_of_replicas": self.settings.replicas}}
        own = {
            layout.positions_index(self.prefix): layout.POSITION_MAPPING,
            layout.refusals_index(self.prefix): layout.REFUSAL_MAPPING,
        }
        for name, mapping in own.items():
            if not client.indices.exists(index=name):
                client.indices.create(index=name, body={"mappings": mapping, "settings": settings})
            elif renew:
                client.indices.put_mapping(index=name, body=mapping)

    def note(self, client: OpenSearch, name: TableName) -> IndexNote | None:
        """What the table's index says of itself, None when there is none; raises TableStoppedError if not ours."""
        index = self.name_of(name)
        found = client.indices.get_mapping(index=index, params={"ignore_unavailable": "true"})
        if not found:
            return None
        note = IndexNote.from_meta(next(iter(found.values())).get("mappings", {}).get("_meta"))
        if note is None or note.owner != self.owner or note.table.name != name:
            raise TableStoppedError(
                f"{name}: index {index} is there already and is not this follower's",
                "choose another prefix, or delete it",
            )
        return note

    def of_tables(self, client: OpenSearch) -> Mapping[TableName, TableIndex]:
        """The index of every table that has one under its name, closed or not."""
        only = {"filter_path": "*.mappings._meta,*.aliases", "expand_wildcards": "all"}
        found = client.indices.get(index=f"{self.prefix}-*", params=only)
        named = [
            (index, {index, *each.get("aliases", ())}, IndexNote.from_meta(each.get("mappings", {}).get("_meta")))
            for index, each in found.items()
        ]
        return {
            note.table.name: TableIndex(index, note)
            for index, names, note in named
            if note and note.owner == self.owner and self.name_of(note.table.name) in names
        }

    def add_fields(self, client: OpenSearch, note: IndexNote) -> None:
        """Give an index the fields of further columns; documents from before have none of them, which means null."""
        with self._fields_of(note.table.name):
            client.indices.put_mapping(index=self.name_of(note.table.name), body=layout.table_mapping(note))

    def put_note(self, client: OpenSearch, index: str, note: IndexNote) -> None:
        client.indices.put_mapping(index=index, body={"_meta": note.as_meta()})

    def forget_copies(self, client: OpenSearch, found: Sequence[TableIndex]) -> None:
        """Mark these indexes as ones without a copy."""
        for each in found:
            if each.note.bookmark:
                self.put_note(client, each.index, replace(each.note, bookmark=None))

    def begin_copy(self, client: OpenSearch, table: Table) -> tuple[list[str], str]:
        """Make the index that a copy goes to; gives those that are behind the table's name now, too."""
        alias, s = self.name_of(table.name), self.settings
        behind = list(client.indices.get_alias(index=alias, params={"ignore_unavailable": "true"}))
        # closed ones as well: their names are taken
        only = {"filter_path": "*.mappings._meta", "expand_wildcards": "all"}
        there = client.indices.get(index=layout.copies(alias), params=only)
        # left by one that was killed
        for left in there.keys() - set(behind):
            client.indices.delete(index=left)
        fresh = layout.copy_name(alias, max(map(layout.copy_number, [*there, alias])) + 1)
        settings = layout.table_settings(s.shards, s.replicas, s.deletes_remembered_hours)
        mapping = layout.table_mapping(IndexNote(self.owner, table))
        # where there is no old one to be searched meanwhile, the new one can be seen to grow
        aliases: dict[str, Any] = {} if behind else {alias: {}}
        body = {"mappings": mapping, "settings": {"index": settings}, "aliases": aliases}
        with self._fields_of(table.name):
            client.indices.create(index=fresh, body=body)
        return behind, fresh

    def put_in_place(self, client: OpenSearch, name: TableName, index: str, old: Sequence[str]) -> None:
        """Let searches see the new index instead of the old ones, between two requests."""
        gone = [{"remove_index": {"index": each}} for each in old]
        came = {"add": {"index": index, "alias": self.name_of(name)}}
        client.indices.update_aliases(body={"actions": [*gone, came]})

    @contextmanager
    def _fields_of(self, name: TableName) -> Iterator[None]:
        """A request that describes a table's index: what is refused of it is the table's matter."""
        try:
            yield
        except RequestError as error:
            body = error.info if isinstance(error.info, dict) else {}
            # a closed index is said by the same status, and is a matter of the index
            if find_failure(self.cluster, body.get("error")):
                raise
            raise TableStoppedError(
                f"{name}: OpenSearch refuses its index: {describe_error(error)}",
                "mend that, by another name of a column, say; or name the table under leave_out of this follower",
            ) from error
