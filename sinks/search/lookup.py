"""Finds the documents of a few rows as searches see them."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch

from cdc.core.table import Table
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.opensearch.pages import find_page
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.shape import KEY_FIELD, IndexShape
from cdc.sinks.search.table_shapes import shape_of

AT_ONCE: Final = 500
"""Documents of one request, at most."""
Documents = list[Mapping[str, Any] | None]


def read_documents(settings: ClusterSettings, prefix: str, table: Table, keys: pa.Table) -> Documents:
    """The documents of rows with these keys, in their order; None where searches find none. Raises CdcError."""
    index, shape = index_name(prefix, table.name), shape_of(settings, table.name)
    read = _search_many if shape.can_move(table) else _get_many
    with open_client(Cluster.of(settings)) as client:
        at_once = find_page(client, index, AT_ONCE)
        parts = [read(client, index, shape, table, keys.slice(at, at_once)) for at in range(0, len(keys), at_once)]
    return [document for part in parts for document in part]


def _get_many(client: OpenSearch, index: str, shape: IndexShape, table: Table, keys: pa.Table) -> Documents:
    at = shape.addresses(keys, table)
    routings = at.routing.to_pylist() if at.routing is not None else [None] * len(keys)
    asked = [
        {"_id": id, **({"routing": routing} if routing else {})}
        for id, routing in zip(at.ids.to_pylist(), routings, strict=True)
    ]
    # not realtime: as in `_get`
    found = client.mget(body={"docs": asked}, index=index, params={"realtime": "false"})["docs"]
    return [each["_source"] if each.get("found") else None for each in found]


def _search_many(client: OpenSearch, index: str, shape: IndexShape, table: Table, keys: pa.Table) -> Documents:
    asked = shape.row_keys(keys, table).to_pylist()
    query = {"query": {"terms": {KEY_FIELD: asked}}, "size": 2 * len(asked)}
    hits = client.search(index=index, body=query, params={"ignore_unavailable": "true"})["hits"]["hits"]
    by_key: dict[str, list[Mapping[str, Any]]] = {}
    for hit in hits:
        by_key.setdefault(hit["_source"][KEY_FIELD], []).append(hit["_source"])
    # of two documents of one row, neither is right
    found = [by_key.get(key, []) for key in asked]
    return [None if not each else each[0] if len(each) == 1 else {} for each in found]


def read_document(settings: ClusterSettings, prefix: str, table: Table, key: pa.Table) -> dict[str, Any] | None:
    """The document of the row with this key in the table's index; None if searches find none. Raises CdcError."""
    cluster = Cluster.of(settings)
    index, shape = index_name(prefix, table.name), shape_of(settings, table.name)
    with open_client(cluster) as client:
        read = _search if shape.can_move(table) else _get
        return read(client, index, shape, table, key)


def _search(client: OpenSearch, index: str, shape: IndexShape, table: Table, key: pa.Table) -> dict[str, Any] | None:
    query = {"term": {KEY_FIELD: shape.row_keys(key, table)[0].as_py()}}
    found = client.search(index=index, body={"query": query}, params={"ignore_unavailable": "true"})["hits"]["hits"]
    return dict(found[0]["_source"]) if found else None


def _get(client: OpenSearch, index: str, shape: IndexShape, table: Table, key: pa.Table) -> dict[str, Any] | None:
    at = shape.addresses(key, table)
    routing = at.routing[0].as_py() if at.routing is not None else ""
    # not realtime: what is written and not refreshed yet is not visible to anybody
    params = {"realtime": "false", "ignore": 404, **({"routing": routing} if routing else {})}
    found = client.get(index=index, id=at.ids[0].as_py(), params=params)
    return dict(found["_source"]) if found.get("found") else None
