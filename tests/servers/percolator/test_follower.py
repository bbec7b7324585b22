"""The percolator on real servers, beyond random histories: events, refused queries, lost and foreign indexes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from cdc.core.errors import PreconditionError, RefusedError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.clients.topics import Admin
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.layout import Searchable
from cdc.sinks.percolator import search
from cdc.sinks.percolator.layout import OwnFields
from tests.servers.percolator.play import LISTINGS, SEARCHES, Scene, at, batch, listing, make_scene, saved, scene

__all__ = ["make_scene", "scene"]

CHEAP = {"range": {"price": {"lt": 5}}}
ALL: dict[str, Any] = {"match_all": {}}


def test_a_match_and_its_end_are_told_once_with_their_moment(scene: Scene) -> None:
    scene.apply(2, searches={(1,): saved(1, CHEAP)})
    scene.apply(3, {(7,): listing(7, price=4), (8,): listing(8, price=6)})
    scene.apply(4, {(7,): listing(7, price=3)})
    scene.apply(5, {(7,): listing(7, price=9)})
    about = {"query": {"id": 1}, "table": "public.listings", "row": {"id": 7}}
    assert scene.events() == [
        {"kind": "match", **about, "lsn": "0/1E", "committed_at": "2023-11-14T22:13:20.003Z"},
        {"kind": "end of match", **about, "lsn": "0/32", "committed_at": "2023-11-14T22:13:20.005Z"},
    ]
    assert scene.present() == set()


def test_a_query_is_matched_with_the_rows_that_are_there(scene: Scene) -> None:
    scene.apply(2, {(7,): listing(7, price=4), (8,): listing(8, price=6)})
    scene.apply(3, searches={(1,): saved(1, CHEAP)})
    assert scene.told() == {(1, 7)}
    scene.apply(4, searches={(1,): saved(1, ALL)})
    assert scene.told() == {(1, 7), (1, 8)}
    scene.apply(5, {(9,): listing(9)}, {(1,): None})
    assert scene.told() == scene.present() == set()


def test_a_refused_query_is_told_and_kept_and_the_others_go_on(scene: Scene, search_url: str) -> None:
    refused: dict[int, Any] = {1: "{", 2: "[1]", 3: {"term": {"colour": "red"}}, 4: {"guess": {}}}
    scene.apply(2, {(7,): listing(7)}, {**{(n,): saved(n, q) for n, q in refused.items()}, (5,): saved(5, ALL)})
    assert scene.told() == {(5, 7)}
    index = f"{scene.settings.prefix}-cdc.refused-queries"
    told = sorted(scene.remarks())
    for number, part, line in zip(refused, ("no JSON", "object", "colour", "guess"), told, strict=True):
        assert line.startswith(f"public.saved_searches: the query where id = {number} is refused for rows of public")
        assert part in line
        assert line.endswith(f"→ correct it; index {index} has all that are refused")
    assert scene.remarks() == []
    assert refused_in(search_url, index) == {'{"id":1}', '{"id":2}', '{"id":3}', '{"id":4}'}
    scene.apply(3, {(8,): listing(8)}, {(3,): saved(3, {"term": {"price": 5}}), (4,): None})
    assert scene.told() == {(5, 7), (5, 8), (3, 7), (3, 8)}
    assert refused_in(search_url, index) == {'{"id":1}', '{"id":2}'}
    # one that was a query ends with its matches
    scene.apply(4, {}, {(5,): saved(5, "no query")})
    assert scene.told() == {(3, 7), (3, 8)}


def refused_in(url: str, index: str) -> set[str]:
    found = httpx.get(f"{url}/{index}/_search", params={"size": 100}).raise_for_status().json()
    return {hit["_source"]["query"] for hit in found["hits"]["hits"]}


def test_a_query_that_fails_at_a_row_is_refused(scene: Scene) -> None:
    failing = {"script": {"script": {"source": "10 / doc['price'].value > 3"}}}
    scene.apply(2, {(7,): listing(7, price=2)}, {(1,): saved(1, failing), (2,): saved(2, ALL)})
    assert scene.told() == {(1, 7), (2, 7)}
    scene.apply(3, {(8,): listing(8, price=0)})
    assert scene.told() == {(2, 7), (2, 8)}
    [told] = scene.remarks()
    assert told.startswith(
        "public.saved_searches: the query where id = 1 is refused for rows of public.listings: it fails at a row: "
    )


BOATS = Table(TableName("public", "boats"), (Column("id", Kind.INTEGER), Column("sails", Kind.INTEGER)), ("id",))


def test_a_query_is_for_the_tables_that_have_its_fields(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(tables=["listings", "boats"])
    scene.follower.prepare([LISTINGS, SEARCHES, BOATS])
    for table in (LISTINGS, SEARCHES, BOATS):
        scene.load(table, {})
    scene.apply(1)
    queries = {1: {"term": {"sails": 2}}, 2: {"term": {"price": 5}}, 3: ALL, 4: {"term": {"oars": 1}}}
    scene.apply(2, {(7,): listing(7)}, {(n,): saved(n, query) for n, query in queries.items()})
    assert scene.told() == {(2, 7), (3, 7)}
    [told] = scene.remarks()
    assert "where id = 4" in told


def test_a_query_of_no_field_is_told_of_when_the_last_table_is_there(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(tables=["listings", "boats"])
    scene.follower.prepare([LISTINGS, SEARCHES, BOATS])
    queries = {1: {"term": {"sails": 2}}, 2: {"term": {"oars": 1}}}
    scene.load(LISTINGS, {(7,): listing(7)})
    scene.load(SEARCHES, {(n,): saved(n, query) for n, query in queries.items()})
    scene.apply(1)
    assert scene.remarks() == []
    scene.load(BOATS, {(8,): {"id": 8, "sails": 2}})
    scene.apply(2)
    assert scene.told() == {(1, 8)}
    [told] = scene.remarks()
    assert "where id = 2" in told


def test_a_new_column_can_be_asked_for(scene: Scene) -> None:
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, {"term": {"rooms": 3}}), (2,): saved(2, ALL)})
    assert len(scene.remarks()) == 1
    wider = replace(LISTINGS, columns=(*LISTINGS.columns, Column("rooms", Kind.INTEGER)))
    scene.follower.prepare([wider, SEARCHES])
    scene.apply(3)
    assert scene.told() == {(2, 7)}
    assert scene.remarks() == []


def test_a_lost_percolator_index_is_made_again_and_nothing_is_told_twice(scene: Scene, search_url: str) -> None:
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, ALL)})
    httpx.delete(f"{search_url}/{scene.settings.prefix}-public-listings.queries").raise_for_status()
    scene.apply(3, {(8,): listing(8)})
    assert scene.told() == {(1, 7), (1, 8)}
    assert len(scene.events()) == 2


def test_lost_matches_are_told_again(scene: Scene) -> None:
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, ALL)})
    scene.follower.close()
    with Admin(scene.log) as admin:
        admin.delete_wholly([scene.topics.present.name])
    scene.restart()
    scene.apply(3)
    assert [event["kind"] for event in scene.events()] == ["match", "match"]
    assert scene.present() == {(1, 7)}


def test_no_match_is_told_before_the_queries_are_there(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene()
    scene.load(LISTINGS, {(7,): listing(7)})
    scene.apply(1)
    assert scene.events() == []
    scene.load(SEARCHES, {(1,): saved(1, ALL)})
    scene.apply(2)
    assert scene.told() == {(1, 7)}


def test_a_foreign_index_is_refused(make_scene: Callable[..., Scene], search_url: str) -> None:
    scene = make_scene()
    index = f"{scene.settings.prefix}-public-listings.queries"
    httpx.put(f"{search_url}/{index}").raise_for_status()
    for table in (LISTINGS, SEARCHES):
        scene.load(table, {})
    with pytest.raises(PreconditionError, match=f"index {index} is there already and is not this follower's"):
        scene.apply(1)
    assert scene.follower.position() is None


def test_a_replaced_follower_tells_no_more(scene: Scene) -> None:
    old = scene.follower
    scene.restart()
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, ALL)})
    with pytest.raises(RefusedError, match="another `cdc follow` has taken over"):
        old.apply(batch({(8,): listing(8)}, {}, 3), at(3))
    assert scene.told() == {(1, 7)}


def test_many_hits_come_page_by_page(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PAGE", 3)
    scene.apply(2, {(n,): listing(n) for n in range(10)}, {(n,): saved(n, ALL) for n in range(7)})
    assert len(scene.told()) == 70
    index, own = f"{scene.settings.prefix}-public-listings.queries", OwnFields.beside(LISTINGS)
    with open_client(scene.follower._cluster) as client:
        found = [*search.percolate(client, index, own, ['{"id":1,"price":3}', '{"id":2}'], most=2)]
    assert sorted(found) == [(f'{{"id":{n}}}', [0, 1]) for n in range(7)]


def test_a_long_key_is_found_by_its_document(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(tables=["long"])
    table = Table(TableName("public", "long"), (Column("id", Kind.TEXT), Column("n", Kind.INTEGER)), ("id", "n"))
    scene.follower.prepare([table])
    keys = {("ä\n" * 400, 1), ("short", 2)}
    scene.load(table, {key: {"id": key[0], "n": key[1]} for key in keys})
    with open_client(scene.follower._cluster) as client:
        rows = Searchable(table, f"{scene.settings.prefix}-public-long")
        found = search.find_rows(client, scene.follower._cluster, rows, '{"match_all":{}}')
    assert found == {f'{{"id":{text},"n":{n}}}' for text, n in (('"' + "ä\\n" * 400 + '"', 1), ('"short"', 2))}
