"""Reads a whole index: one Spark task for each slice, which scrolls through it page by page."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from opensearchpy import OpenSearch
from opensearchpy.serializer import JSONSerializer
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.names import KafkaColumn
from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import Digest, digest_of
from cdc.columns.rows.row_prints import StoredRows
from cdc.columns.spark_tasks import run_in_tasks
from cdc.sinks.opensearch.client import open_client, unreachable_error
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.pages import size_page

MOST_PAGE: Final = 10_000
"""Documents of a page; that of an index that has no other max_result_window."""
KEEP_ALIVE: Final = "5m"
_SCHEMA = pa.schema([(KafkaColumn.VALUE.value, pa.string())])

Pages = Iterable[Sequence[bytes]]
"""Documents as bytes, page by page."""
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class IndexSource:
    """An index of about `count` documents in `size` bytes, to be read in `slices`; one for each shard is free
    (OpenSearch, "Sliced scroll")."""

    cluster: Cluster
    index: str
    slices: int
    count: int
    size: int
    most_page: int = MOST_PAGE

    @property
    def page(self) -> int:
        """Documents of a page."""
        return size_page(self.count, self.size, self.most_page)


def find_source(client: OpenSearch, cluster: Cluster, index: str) -> IndexSource:
    """An index as it is now, by its name or an alias."""
    settings = client.indices.get_settings(index=index)
    count = client.count(index=index)["count"]
    # the answer is under the index's own name, not under the alias
    own = next(iter(settings.values()))["settings"]["index"]
    most = int(own.get("max_result_window", MOST_PAGE))
    stored = client.indices.stats(index=index, metric="store")["_all"]["primaries"]["store"]["size_in_bytes"]
    return IndexSource(cluster, index, int(own["number_of_shards"]), count, int(stored), most)


def documents(spark: SparkSession, source: IndexSource) -> DataFrame:
    """Read every visible document, as JSON text in a column VALUE."""
    return _run_on_slices(spark, source, _texts, f"{KafkaColumn.VALUE.value} string")


def digest(spark: SparkSession, source: IndexSource) -> Digest:
    """Compute the digest of all visible documents."""
    # a Spark job takes a twelfth of a second before its first row
    if source.count <= digests.SMALL_ROWS:
        return sum(_pages(range(source.slices), source, partial(map, digest_of)), Digest())
    return digests.sum_answers(_run_on_slices(spark, source, _digest_pages, digests.COLUMNS))


def _run_on_slices(
    spark: SparkSession, source: IndexSource, task: Callable[[Pages], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    return run_in_tasks(spark, source.slices, partial(_pages, source=source, task=task), schema)


def _texts(pages: Pages) -> Iterator[pa.RecordBatch]:
    for page in pages:
        yield pa.RecordBatch.from_arrays([pa.array(page, pa.binary()).cast(pa.string())], schema=_SCHEMA)


def _digest_pages(pages: Pages) -> Iterator[pa.RecordBatch]:
    return digests.to_answer(map(digest_of, pages))


def _pages(numbers: Iterable[int], source: IndexSource, task: Callable[[Pages], Iterator[Made]]) -> Iterator[Made]:
    """Run `task` on the slices with these numbers, in this process."""
    yield from task([bytes(hit.source) for hit in hits] for hits in _hits(numbers, source))


def _hits(numbers: Iterable[int], source: IndexSource) -> "Iterator[Sequence[_Hit]]":
    with open_client(source.cluster, serializer=_PageSerializer()) as client:
        for number in numbers:
            yield from _slice(client, source, number)


def read_stored(source: IndexSource, field: str | None) -> Iterator[StoredRows]:
    """Read all visible documents, in this process, each with its id, or with the text that it has in `field`."""
    for hits in _hits(range(source.slices), source):
        texts = [bytes(hit.source) for hit in hits]
        yield StoredRows(partial(_read_ids, hits) if field is None else partial(_read_field, texts, field), texts)


def _read_ids(hits: "Sequence[_Hit]") -> list[bytes]:
    return [msgspec.json.decode(hit.id, type=str).encode() for hit in hits]


def _read_field(texts: Sequence[bytes], field: str) -> list[bytes]:
    return [str(msgspec.json.decode(text).get(field, "")).encode() for text in texts]


class _Hit(msgspec.Struct, gc=False):
    source: msgspec.Raw = msgspec.field(name="_source")
    id: msgspec.Raw = msgspec.field(name="_id", default=msgspec.Raw())


class _Hits(msgspec.Struct):
    hits: list[_Hit] = []


class _Shards(msgspec.Struct):
    failed: int = 0


class _Page(msgspec.Struct):
    """A search's answer; a hit's document stays undecoded."""

    scroll_id: str = msgspec.field(name="_scroll_id", default="")
    hits: _Hits = msgspec.field(default_factory=_Hits)
    shards: _Shards = msgspec.field(name="_shards", default_factory=_Shards)


class _PageSerializer(JSONSerializer):
    """Reads answers as pages."""

    _decoder = msgspec.json.Decoder(_Page)

    def loads(self, s: str) -> Any:
        return self._decoder.decode(s)


def _slice(client: OpenSearch, source: IndexSource, number: int) -> Iterator[Sequence[_Hit]]:
    # `_doc`: no sorting, since no order is needed
    query: dict[str, Any] = {"size": source.page, "sort": ["_doc"]}
    # OpenSearch refuses a slice that is the whole
    if source.slices > 1:
        query["slice"] = {"id": number, "max": source.slices}
    page = client.search(body=query, index=source.index, params={"scroll": KEEP_ALIVE})
    try:
        with ThreadPoolExecutor(1) as ahead:
            while _whole(page, source).hits.hits:
                # ask for the next page before processing this one, so that the node works meanwhile
                following = ahead.submit(client.scroll, body={"scroll": KEEP_ALIVE, "scroll_id": page.scroll_id})
                yield page.hits.hits
                page = following.result()
    finally:
        # until then, or for KEEP_ALIVE, the node keeps the scroll's segments
        client.clear_scroll(body={"scroll_id": [page.scroll_id]})


def _whole(page: _Page, source: IndexSource) -> _Page:
    """Check that the page has all shards: OpenSearch reports success even if some are missing."""
    if page.shards.failed:
        raise unreachable_error(source.cluster, f"{page.shards.failed} shards of index {source.index} do not answer")
    return page
