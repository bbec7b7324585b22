"""The queries that OpenSearch refuses: kept in an index, and told by a line each."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, Final

from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from cdc.columns.rows.documents import describe_key
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_count
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.percolators import Refused
from cdc.sinks.percolator.queries import Key
from cdc.sinks.percolator.search import pages

MOST_TOLD: Final = 20
"""Lines of one batch: the first copy of a table may have thousands."""
RETRIES: Final = 5
"""Of what a busy node rejects, with growing pauses: a minute in all."""
GONE: Final = 404
_UNMAPPED: Final = "No field mapping can be found for the field with name"
_NAME: Final = {"type": "keyword"}
_FIELDS: Final = {"pipeline": _NAME, "follower": _NAME, "table": _NAME, "query": _NAME, "reason": {"type": "text"}}
_MAPPING: Final = {"dynamic": "strict", "properties": _FIELDS}


def refusals_index(prefix: str) -> str:
    """The index of refused queries; no table's index has this name, since no hash follows the dot."""
    return f"{prefix}-cdc.refused-queries"


def find_unmapped(refused: Iterable[Refused]) -> set[Key]:
    """The queries that are refused since a table lacks a field: they may be for another table that has it."""
    return {key for found in refused for key, reason in found.items() if _UNMAPPED in reason}


def without_foreign(refused: Mapping[TableName, Refused], foreign: Set[Key]) -> dict[TableName, Refused]:
    """Leave out where a table lacks a field of queries that are for another one."""
    return {
        table: {key: reason for key, reason in found.items() if key not in foreign or _UNMAPPED not in reason}
        for table, found in refused.items()
    }


def to_remarks(refused: Mapping[TableName, Refused], queries: Table, index: str) -> Iterator[PreconditionError]:
    """Tell of each refused query, in a line."""
    reasons = dict[Key, str]()
    for table, found in refused.items():
        for key, reason in found.items():
            reasons.setdefault(key, f"for rows of {table}: {reason}")
    for key in list(reasons)[:MOST_TOLD]:
        yield PreconditionError(
            f"{queries.name}: the query where {describe_key(key, queries.key)} is refused {reasons[key]}",
            f"correct it; index {index} has all that are refused",
        )
    if len(reasons) > MOST_TOLD:
        told = format_count(len(reasons) - MOST_TOLD, "further row")
        yield PreconditionError(f"{queries.name}: queries of {told} are refused", f"index {index} has all of them")


class Refusals:
    """The refused queries of one follower: for each table, those that are refused now."""

    def __init__(self, prefix: str, owner: Owner, replicas: int) -> None:
        self.index = refusals_index(prefix)
        self._owner = owner
        self._replicas = replicas

    def prepare(self, client: OpenSearch) -> None:
        if not client.indices.exists(index=self.index):
            settings = {"index": {"number_of_shards": 1, "number_of_replicas": self._replicas}}
            client.indices.create(index=self.index, body={"mappings": _MAPPING, "settings": settings})

    def replace(self, client: OpenSearch, table: TableName, tried: Collection[Key] | None, refused: Refused) -> None:
        """Keep the refused ones of the queries that were `tried`, or of all (None), in the place of older ones."""
        old = {key for key in self._kept(client, table) if tried is None or key in tried}
        actions: list[Mapping[str, Any]] = [
            {"_op_type": "delete", "_id": self._id(table, key)} for key in old - refused.keys()
        ]
        for key, reason in refused.items():
            entry = {**self._owner.as_json(), "table": str(table), "query": key, "reason": reason}
            actions.append({"_id": self._id(table, key), "_source": entry})
        _, failed = bulk(client, actions, index=self.index, refresh=True, raise_on_error=False, max_retries=RETRIES)
        told = [str(each) for action in failed for each in action.values() if each["status"] != GONE]
        if told:
            raise UnreachableError(
                f"index {self.index} does not take a refused query: {told[0]}", "see its cluster's log"
            )

    def _kept(self, client: OpenSearch, table: TableName) -> Iterable[Key]:
        own = [{"term": {name: value}} for name, value in {**self._owner.as_json(), "table": str(table)}.items()]
        for hits in pages(client, self.index, json.dumps({"bool": {"filter": own}}), source=True):
            yield from (hit["_source"]["query"] for hit in hits)

    def _id(self, table: TableName, query: Key) -> str:
        return hashlib.sha256(json.dumps([*self._owner.as_json().values(), str(table), query]).encode()).hexdigest()
