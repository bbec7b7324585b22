"""Finds the document of one row as searches see it."""

from typing import Any

import pyarrow as pa
from opensearchpy import OpenSearch

from cdc.core.table import Table
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.shape import KEY_FIELD, IndexShape
from cdc.sinks.search.table_shapes import shape_of


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
