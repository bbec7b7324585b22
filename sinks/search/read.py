"""An index read back, whole: one Spark partition a slice, each scrolling through it page by page."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.names import Message
from sinks.search.client import Cluster, reached

PAGE: Final = 1000
KEEP_ALIVE: Final = "5m"
_SCHEMA = pa.schema([(Message.VALUE.value, pa.string())])


@dataclass(frozen=True, slots=True)
class Source:
    """An index to be read in so many slices; a slice a shard costs nothing (OpenSearch, "Sliced scroll")."""

    cluster: Cluster
    index: str
    slices: int


def read(spark: SparkSession, source: Source) -> DataFrame:
    """Every document that a search sees now, as JSON text in a column VALUE."""
    slices = spark.range(0, source.slices, 1, source.slices)
    return slices.mapInArrow(partial(_pages, source=source), f"{Message.VALUE.value} string")


def _pages(batches: Iterable[pa.RecordBatch], source: Source) -> Iterator[pa.RecordBatch]:
    """On an executor: the pages of each slice in the batches."""
    with reached(source.cluster) as client:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _slice(client, source, number)


def _slice(client: OpenSearch, source: Source, number: int) -> Iterator[pa.RecordBatch]:
    # nobody needs an order, and by `_doc` a scroll takes none
    query: dict[str, Any] = {"size": PAGE, "sort": ["_doc"]}
    if source.slices > 1:
        query["slice"] = {"id": number, "max": source.slices}
    page = client.search(body=query, index=source.index, params={"scroll": KEEP_ALIVE})
    try:
        while hits := page["hits"]["hits"]:
            documents = [json.dumps(hit["_source"], ensure_ascii=False) for hit in hits]
            yield pa.RecordBatch.from_arrays([pa.array(documents, pa.string())], schema=_SCHEMA)
            page = client.scroll(body={"scroll": KEEP_ALIVE, "scroll_id": page["_scroll_id"]})
    finally:
        client.clear_scroll(body={"scroll_id": [page["_scroll_id"]]})
