"""The percolator indexes of one follower: each has every query, with the fields of one table whose rows it matches."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError

from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.sinks.opensearch import write
from cdc.sinks.opensearch.bulk import Addresses, Operations, deletes
from cdc.sinks.opensearch.client import describe_error, find_failure
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.owner import Owner
from cdc.sinks.percolator import search
from cdc.sinks.percolator.layout import (
    OwnFields,
    PercolatorNote,
    percolator_body,
    percolator_index,
    percolator_indexes,
)
from cdc.sinks.percolator.queries import PORTION, Key, Queries, ids_of, to_operations
from cdc.sinks.percolator.settings import PercolatorSettings

Refused = dict[Key, str]
"""The queries that an index does not take, each with the reason."""


@dataclass(frozen=True, slots=True)
class Percolators:
    """The percolator indexes of one follower.

    Every write has the version of its position and loses against a newer one, so it may be repeated. An index is made
    anew whenever it is not whole, or its table has got other columns: everything in it comes from the queries' rows.
    """

    cluster: Cluster
    owner: Owner
    prefix: str
    settings: PercolatorSettings

    def index_of(self, table: TableName) -> str:
        return percolator_index(self.prefix, table)

    def whole(self, client: OpenSearch) -> dict[TableName, Table]:
        """The tables whose index has every query as of the last batch, as the index knows them."""
        notes = self._notes(client, percolator_indexes(self.prefix)).values()
        return {note.table.name: note.table for note in notes if note and note.owner == self.owner and note.is_whole}

    def _notes(self, client: OpenSearch, indexes: str) -> Mapping[str, PercolatorNote | None]:
        # closed ones included: their names are in use
        only = {"filter_path": "*.mappings._meta,*.aliases", "expand_wildcards": "all", "ignore_unavailable": "true"}
        found = client.indices.get(index=indexes, params=only)
        return {index: PercolatorNote.from_meta(each.get("mappings", {}).get("_meta")) for index, each in found.items()}

    def build(self, client: OpenSearch, table: Table, queries: Queries, version: int) -> Refused:
        """Make the table's index anew, with all queries; returns those that it does not take."""
        index = self.index_of(table.name)
        for name, note in self._notes(client, index).items():
            if note is None or note.owner != self.owner:
                raise PreconditionError(
                    f"index {name} is there already and is not this follower's", "choose another prefix, or delete it"
                )
            client.indices.delete(index=name)
        self._create(client, index, PercolatorNote(self.owner, table, is_whole=False))
        refused = self.update(client, table, queries, version)
        # last: without it, a half filled index counts as none
        whole = PercolatorNote(self.owner, table, is_whole=True)
        client.indices.put_mapping(index=index, body={"_meta": whole.as_meta()})
        return refused

    def _create(self, client: OpenSearch, index: str, note: PercolatorNote) -> None:
        try:
            client.indices.create(index=index, body=percolator_body(note, self.settings))
        except RequestError as error:
            body = error.info if isinstance(error.info, dict) else {}
            if find_failure(self.cluster, body.get("error")):
                raise
            raise PreconditionError(
                f"OpenSearch refuses index {index}: {describe_error(error)}", "see the cluster's log"
            ) from error

    def update(self, client: OpenSearch, table: Table, queries: Queries, version: int) -> Refused:
        """Bring the table's index to these changed queries; returns those that it does not take, and has not."""
        operations = to_operations(queries, OwnFields.beside(table), version)
        told = self._send(client, table, operations, version)
        by_id = dict(zip(ids_of(queries.texts).to_pylist(), queries.texts, strict=True)) if told else {}
        refused = {by_id[id]: reason for id, reason in told.items()}
        self.drop(client, table, refused, version)
        client.indices.refresh(index=self.index_of(table.name))
        return refused

    def drop(self, client: OpenSearch, table: Table, keys: Iterable[Key], version: int) -> None:
        """Take these queries out of the table's index; seen from the next refresh on."""
        if gone := [*keys]:
            self._send(client, table, [deletes(Addresses(ids_of(gone)), version)], version)

    def select(self, client: OpenSearch, table: TableName, keys: Iterable[Key]) -> Iterator[Key]:
        """Those of these queries that the table's index has."""
        asked = [*keys]
        for some in (asked[at : at + PORTION] for at in range(0, len(asked), PORTION)):
            ids = ids_of(some).to_pylist()
            found = client.mget(body={"ids": ids}, index=self.index_of(table), params={"_source": "false"})["docs"]
            yield from (key for key, each in zip(some, found, strict=True) if each["found"])

    def _send(
        self, client: OpenSearch, table: Table, operations: Iterable[Operations], version: int
    ) -> Mapping[str, str]:
        """Send operations; returns the refused ids, each with the reason."""
        s = self.settings
        limits = (s.bulk_documents, s.bulk_bytes, s.bulk_retry_seconds)
        index = self.index_of(table.name)
        # all of them: a query that is refused and not known would be matched as it was before
        target = write.Target(
            self.cluster, index, (), version, *limits, most_refusals=sys.maxsize, describe=search.describe
        )
        return {each.id: each.reason for each in write.send(client, operations, target)}
