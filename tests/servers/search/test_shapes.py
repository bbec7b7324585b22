"""Indexes of a given shape on a real node: fields, ids and routings, what is refused, and a change of the shape."""

from contextlib import suppress
from typing import Any, cast
from unittest.mock import patch

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch
from cdc.columns.rows.held import digest_copy
from cdc.core.errors import UnreachableError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.opensearch.layout import index_name, refusals_index
from cdc.sinks.owner import Owner
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.settings import IndexSettings, SearchSettings
from cdc.sinks.search.trial import find_refused
from tests.contract.fed import changed
from tests.contract.followers import bookmark
from tests.contract.search_harness import positions_refused
from tests.servers.search.local_copy import LocalCopy
from tests.servers.search.play import MARK, at, name
from tests.support.model import Key, Row

__all__ = ["name"]

POINT = bytes.fromhex("0101000020e6100000000000000000f03f0000000000000040")
SHOP = Table(
    TableName("shop", "products"),
    (
        Column("id", Kind.INTEGER),
        Column("tenant", Kind.TEXT),
        Column("title", Kind.TEXT),
        Column("secret", Kind.TEXT),
        Column("day", Kind.TEXT),
        Column("offers", Kind.JSON),
        Column("place", Kind.GEOMETRY, type="public.geometry(Point,4326)"),
        Column("embedding", Kind.VECTOR),
    ),
    ("id",),
)
ANALYSIS = {"analyzer": {"folded": {"tokenizer": "standard", "filter": ["lowercase", "asciifolding"]}}}
TITLE = {"type": "search_as_you_type", "analyzer": "folded"}
MAPPINGS: dict[str, Any] = {
    "name": TITLE,
    "day": {"type": "date", "format": "dd/MM/yyyy"},
    "offers": {
        "type": "nested",
        "dynamic": False,
        "properties": {"price": {"type": "double"}, "shop": {"type": "keyword"}},
    },
}
SHAPE: dict[str, Any] = {
    "leave_out_columns": ["secret"],
    "names": {"title": "name"},
    "settings": {"analysis": ANALYSIS, "number_of_shards": 3},
    "mappings": {"properties": MAPPINGS},
}
MOVING = {**SHAPE, "id": "{tenant}:{id}", "routing": "{tenant}"}


def row(number: int, tenant: str | None = "a", day: str | None = "01/02/2024", title: str = "Crème brûlée") -> Row:
    offers = (
        '{"price": 1.50,\n "shop": "x"}' if number % 2 else '[{"price": 1, "shop": "y"}, {"price": 9, "shop": "x"}]'
    )
    told = {"id": number, "tenant": tenant, "title": title, "secret": "s", "day": day, "offers": offers}
    vector: Any = [0.1, float(number)]
    return {**told, "place": POINT, "embedding": vector}


ROWS: dict[Key, Row] = {(n,): row(n) for n in range(1, 6)}


def start(url: str, name: str, **shape: Any) -> SearchFollower:
    given = {str(SHOP.name): IndexSettings.model_validate(shape)} if shape else {}
    settings = SearchSettings(kind="search", url=url, indexes=given)
    # what Spark is asked for here, it does not do: small indexes are read in this process
    found = SearchFollower(cast("SparkSession", object()), settings, name, "search")
    found.prepare([SHOP])
    return found


def same(follower: SearchFollower, rows: dict[Key, Row]) -> bool:
    """Does the index hold what it should of these rows, as `cdc verify` compares it?"""
    return follower.digest(SHOP) == digest_copy(LocalCopy.of(SHOP, rows), SHOP, follower.held(SHOP))


def search(url: str, name: str, query: dict[str, Any], **params: str) -> list[dict[str, Any]]:
    body = {"query": query, "size": 100}
    found = (
        httpx.post(f"{url}/{index_name(name, SHOP.name)}/_search", json=body, params=params).raise_for_status().json()
    )
    return list(found["hits"]["hits"])


def batch(states: dict[Key, Row | None]) -> FeedBatch:
    return FeedBatch({SHOP.name: changed(SHOP, states)})


def test_fields_are_as_they_are_given(search_url: str, name: str) -> None:
    follower = start(search_url, name, **SHAPE)
    follower.load(SHOP, LocalCopy.of(SHOP, ROWS), MARK)
    assert (follower.stops(), follower.bookmarks()) == ({}, {SHOP.name: MARK})
    assert same(follower, ROWS)
    [typed] = search(
        search_url, name, {"bool": {"must": [{"match_bool_prefix": {"name": "creme bru"}}, {"term": {"id": 3}}]}}
    )
    assert typed["_source"].keys() == {"id", "tenant", "name", "day", "offers", "place", "embedding"}
    both = [{"term": {"offers.shop": "x"}}, {"range": {"offers.price": {"lt": 2}}}]
    nested = {"nested": {"path": "offers", "query": {"bool": {"must": both}}}}
    assert {hit["_source"]["id"] for hit in search(search_url, name, nested)} == {1, 3, 5}
    near = {"geo_distance": {"distance": "1km", "place": {"lat": 2, "lon": 1}}}
    assert len(search(search_url, name, {"bool": {"filter": near}})) == 5
    assert len(search(search_url, name, {"range": {"day": {"gte": "01/02/2024", "format": "dd/MM/yyyy"}}})) == 5


def test_what_a_mapping_refuses_keeps_to_its_document(search_url: str, name: str) -> None:
    follower = start(search_url, name, **SHAPE)
    wrong = {**ROWS, (4,): row(4, day="2024-02-01")}
    follower.load(SHOP, LocalCopy.of(SHOP, wrong), MARK)
    [told] = follower.remarks()
    assert str(told).startswith("shop.products: the index refused a document where id = 4: failed to parse field [day]")
    assert "2024-02-01" not in str(told)
    # an old document is not left behind a row that is refused, however often the batch comes
    for _ in range(2):
        follower.apply(batch({(2,): row(2, day="never"), (5,): None}), at(1))
        follower.forget_position()
    assert follower.stops() == {}
    assert same(follower, {key: each for key, each in ROWS.items() if key[0] in (1, 3)})
    assert kept(search_url, name) == {2, 4}
    again = start(search_url, name, **SHAPE)
    again.apply(batch({(2,): row(2), (4,): None}), at(2))
    assert same(again, {key: each for key, each in ROWS.items() if key[0] in (1, 2, 3)})
    assert kept(search_url, name) == set()


def kept(url: str, name: str) -> set[int]:
    found = httpx.post(f"{url}/{refusals_index(name)}/_search", json={"query": {"term": {"kept": True}}}).json()
    return {int(hit["_source"]["document"].removeprefix('{"id":').removesuffix("}")) for hit in found["hits"]["hits"]}


def test_a_document_moves_with_its_routing_and_its_id(search_url: str, name: str) -> None:
    follower = start(search_url, name, **MOVING)
    follower.load(SHOP, LocalCopy.of(SHOP, ROWS), MARK)
    rows = dict(ROWS)

    def follow(offset: int, changes: dict[Key, Row | None]) -> None:
        follower.apply(batch(changes), at(offset))
        rows.update({key: each for key, each in changes.items() if each})
        for key in [key for key, each in changes.items() if each is None]:
            rows.pop(key)
        assert same(follower, rows), f"at {offset}"

    # there and back, a null, and a key that changes: the old one is deleted, the new one is another row
    follow(1, {(1,): row(1, "b"), (2,): row(2, None)})
    follow(2, {(1,): row(1, "a"), (2,): row(2, "c"), (3,): None, (30,): row(30, "d")})
    follow(3, {(30,): None, (3,): row(3, "x:y%"), (4,): None})
    found = {(hit["_id"], hit.get("_routing")) for hit in search(search_url, name, {"match_all": {}})}
    assert found == {("a:1", "a"), ("c:2", "c"), ("x%3Ay%25:3", "x:y%"), ("a:5", "a")}
    assert "c:2" in {hit["_id"] for hit in search(search_url, name, {"match_all": {}}, routing="c")}
    # killed when all is written but the position; the batch that comes then reaches further
    with positions_refused(KeyboardInterrupt), suppress(KeyboardInterrupt):
        follower.apply(batch({(1,): row(1, "k"), (5,): None}), at(4))
    follower = start(search_url, name, **MOVING)
    follow(5, {(1,): row(1, "l"), (5,): row(5, "m")})


def test_a_routing_within_the_same_shard_moves_a_document_once(search_url: str, name: str) -> None:
    shape = {**MOVING, "id": None, "settings": {"analysis": ANALYSIS, "number_of_shards": 1}}
    follower = start(search_url, name, **shape)
    follower.load(SHOP, LocalCopy.of(SHOP, ROWS), MARK)
    moved: dict[Key, Row | None] = {(n,): row(n, "b") for n in range(1, 6)}
    follower.apply(batch(moved), at(1))
    assert same(follower, {key: each for key, each in moved.items() if each})


def test_another_shape_is_filled_beside_verified_and_put_in_place(search_url: str, name: str) -> None:
    start(search_url, name).load(SHOP, LocalCopy.of(SHOP, ROWS), MARK)
    follower = start(search_url, name, **SHAPE)
    # not copied, as far as this shape goes; readers have the old one
    assert follower.bookmarks() == {}
    for step in ("put_mapping", "update_aliases"):
        dying = patch(f"opensearchpy.client.IndicesClient.{step}", side_effect=KeyboardInterrupt)
        with dying, pytest.raises(KeyboardInterrupt):
            follower.load(SHOP, LocalCopy.of(SHOP, ROWS), bookmark(7))
        assert search(search_url, name, {"term": {"secret": "s"}})
    with patch("cdc.sinks.search.write.digest_copy", return_value=start(search_url, name).digest(SHOP)):
        follower.load(SHOP, LocalCopy.of(SHOP, ROWS), bookmark(7))
    [stop] = follower.stops().values()
    assert "shop.products: the new index has other documents than the lake has rows" in str(stop)
    assert search(search_url, name, {"term": {"secret": "s"}})
    follower.load(SHOP, LocalCopy.of(SHOP, ROWS), bookmark(7))
    assert (follower.stops(), follower.bookmarks()) == ({}, {SHOP.name: bookmark(7)})
    assert same(follower, ROWS)
    assert len(httpx.get(f"{search_url}/{index_name(name, SHOP.name)}*").json()) == 1
    assert start(search_url, name, **SHAPE).bookmarks() == {SHOP.name: bookmark(7)}


def test_a_shape_that_the_table_cannot_have_stops_it(search_url: str, name: str) -> None:
    follower = start(search_url, name, names={"nothing": "x"})
    [stop] = follower.stops().values()
    assert str(stop).startswith("shop.products: names names nothing, and it has no such column")


def test_a_cluster_is_asked_whether_it_takes_a_shape(search_url: str, name: str) -> None:
    def told(**shape: Any) -> list[str]:
        given = {str(SHOP.name): IndexSettings.model_validate(shape)}
        settings = SearchSettings(kind="search", url=search_url, indexes=given, prefix=name)
        return [str(each) for each in find_refused(settings, Owner(name, "search"), [SHOP])]

    def trials() -> list[str]:
        return list(httpx.get(f"{search_url}/{name}-cdc.trial.*").raise_for_status().json())

    assert told(**SHAPE) == []
    [refused] = told(names={"title": "name"}, mappings={"properties": {"name": {"type": "text", "analyzer": "none"}}})
    assert refused.startswith("followers.search: shop.products: the cluster refuses its index: ")
    assert "analyzer [none] has not been configured in mappings" in refused
    [foreign] = told(mappings={"properties": {"embedding": {"type": "dense_vector", "dims": 2}}})
    assert "OpenSearch has no type dense_vector: name it knn_vector" in foreign
    [early] = told(columns=["nothing"])
    assert "columns names nothing, and it has no such column" in early
    assert trials() == []
    # killed before it is taken away: the next one does it
    with patch("opensearchpy.client.IndicesClient.delete", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        told(**SHAPE)
    assert len(trials()) == 1
    assert told(**SHAPE) == [] == trials()
    settings = SearchSettings(
        kind="search", url="http://127.0.0.1:1", indexes={str(SHOP.name): IndexSettings(columns=["id"])}
    )
    with pytest.raises(UnreachableError):
        list(find_refused(settings, Owner(name, "search"), [SHOP]))
