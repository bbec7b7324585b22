"""Reads one document as searches see it."""

from typing import Any

from cdc.core.table import TableName
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.opensearch.settings import ClusterSettings


def read_document(settings: ClusterSettings, prefix: str, table: TableName, identity: str) -> dict[str, Any] | None:
    """The document with this id in the table's index; None if searches find none. Raises CdcError."""
    cluster = Cluster.of(settings)
    # not realtime: what is written and not refreshed yet is not visible to anybody
    params = {"realtime": "false", "ignore": 404}
    with open_client(cluster) as client:
        found = client.get(index=index_name(prefix, table), id=identity, params=params)
    return dict(found["_source"]) if found.get("found") else None
