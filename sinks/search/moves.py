"""Finds the documents of changed rows that are not where they belong now: those with another id or routing."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import portions
from cdc.core.table import Table
from cdc.sinks.opensearch.bulk import Addresses
from cdc.sinks.search.shape import KEY_FIELD, IndexShape

KEYS_AT_ONCE: Final = 1000
MOST_HITS: Final = 10_000
"""An index's default `max_result_window`: a row has one document, or two after a batch that was cut off."""
_ONLY: Final = "hits.hits._id,hits.hits._routing,hits.hits._source"

Place = tuple[str, str]
"""A document's id and routing."""


def find_moved(client: OpenSearch, index: str, shape: IndexShape, table: Table, changes: FeedRows) -> Addresses:
    """The documents of deleted rows, and of changed ones those that are elsewhere than the row's document is to be.

    The index is to be refreshed since its last write. Raises TransportError, also if a shard does not answer.
    """
    places = _list_places(shape, table, changes)
    asked = [*places]
    moved = [
        place
        for at in range(0, len(asked), KEYS_AT_ONCE)
        for key, place in _search(client, index, asked[at : at + KEYS_AT_ONCE])
        if place != places[key]
    ]
    ids, routing = ([place[at] for place in moved] for at in (0, 1))
    return Addresses(pa.array(ids, pa.string()), pa.array(routing, pa.string()))


def _list_places(shape: IndexShape, table: Table, changes: FeedRows) -> dict[str, Place | None]:
    """Where the documents of the changes are to be, by the rows' keys."""
    places: dict[str, Place | None] = {}
    for keys in portions(changes.gone):
        places |= dict.fromkeys(shape.row_keys(keys, table).to_pylist())
    for rows in portions(changes.rows):
        at = shape.addresses(rows, table)
        routing = at.routing.to_pylist() if at.routing is not None else [""] * len(rows)
        places |= dict(
            zip(shape.row_keys(rows, table).to_pylist(), zip(at.ids.to_pylist(), routing, strict=True), strict=True)
        )
    return places


def _search(client: OpenSearch, index: str, keys: Sequence[str]) -> Iterator[tuple[str, Place]]:
    body: dict[str, Any] = {"query": {"terms": {KEY_FIELD: [*keys]}}, "_source": [KEY_FIELD], "size": MOST_HITS}
    params = {"allow_partial_search_results": "false", "filter_path": _ONLY}
    found = client.search(index=index, body=body, params=params)
    for hit in found.get("hits", {}).get("hits", ()):
        yield hit["_source"][KEY_FIELD], (hit["_id"], hit.get("_routing", ""))
