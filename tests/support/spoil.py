"""Rows that somebody spoils behind the back of a pipeline: changed, taken away, or added, in one place alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from opensearchpy.helpers import bulk

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import documents, key_documents
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table, TableName
from cdc.log.names import latest_topic
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.sinks.lake.feed.patch import patch_rows
from cdc.sinks.lake.table.writer import TableWriter
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.opensearch.settings import ClusterSettings


@dataclass(frozen=True)
class Spoil:
    """`put`: rows that are wrong, or that no source has. `gone`: keys whose rows are taken away."""

    put: Sequence[dict[str, Any]]
    gone: Sequence[dict[str, Any]]

    def to_rows(self, table: Table) -> FeedRows:
        schema = arrow_schema(table)
        return FeedRows(
            pa.Table.from_pylist(list(self.put), schema), pa.Table.from_pylist(list(self.gone), key_schema(table))
        )


def spoil_lake(pipeline: Pipeline, name: TableName, spoil: Spoil) -> None:
    """The table, of which nobody behind the lake hears before its next cut."""
    table = pipeline.lake_follower.tables.find(name)
    assert table is not None
    _write(table.writer, spoil, pipeline)


def spoil_view(pipeline: Pipeline, name: TableName, spoil: Spoil) -> None:
    store = pipeline.views
    [view] = [view for view in pipeline.settings.view_definitions if view.name == name]
    table = store.find(view)
    assert table is not None
    _write(table.writer, spoil, pipeline)


def _write(writer: TableWriter, spoil: Spoil, pipeline: Pipeline) -> None:
    put = spoil.to_rows(writer.table)
    assert not patch_rows(writer, put, writer.snapshot.version, pipeline.name, anew=True)


def spoil_index(pipeline: Pipeline, follower: str, table: Table, spoil: Spoil) -> None:
    """The documents of an index that is as its table."""
    settings = pipeline.settings.followers[follower]
    assert isinstance(settings, ClusterSettings)
    own = pipeline.name if settings.kind == "search" else f"{pipeline.name}-{follower}"
    index, rows = index_name(own, table.name), spoil.to_rows(table)
    put = zip(key_documents(rows.rows, table).to_pylist(), documents(rows.rows, table).to_pylist(), strict=True)
    actions = [{"_op_type": "index", "_index": index, "_id": id, "_source": text} for id, text in put]
    actions += [
        {"_op_type": "delete", "_index": index, "_id": id} for id in key_documents(rows.gone, table).to_pylist()
    ]
    with open_client(Cluster.of(settings)) as client:
        bulk(client, actions, refresh=True)


def spoil_latest(pipeline: Pipeline, table: Table, spoil: Spoil) -> None:
    """The table's topic."""
    log, rows = pipeline.settings.log, spoil.to_rows(table)
    # by Java's partitioner, as the follower: in another partition than the row's own, it would be no version of it
    settings = {"bootstrap.servers": log.bootstrap, "partitioner": "murmur2_random"}
    topic, producer = latest_topic(log.prefix, table.name), Producer(settings)
    put = zip(key_documents(rows.rows, table).to_pylist(), documents(rows.rows, table).to_pylist(), strict=True)
    for key, text in put:
        producer.produce(topic, text, key)
    for key in key_documents(rows.gone, table).to_pylist():
        producer.produce(topic, None, key)
    assert not producer.flush(60)
