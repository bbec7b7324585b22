"""Saved searches that are refused, or only fail; and those of no named field, which are not."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from cdc.core.errors import UnreachableError
from cdc.sinks.percolator import evaluation, search
from cdc.sinks.percolator.matches import MATCH_BYTES
from tests.servers.percolator.play import LISTINGS, SEARCHES, Scene, listing, make_scene, saved, scene
from tests.servers.search.faulty_node import Faulty
from tests.support.model import Key, Row

__all__ = ["make_scene", "scene"]

CHEAP = {"range": {"price": {"lt": 5}}}
ALL: dict[str, Any] = {"match_all": {}}


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


def ready(scene: Scene) -> Scene:
    for table in (LISTINGS, SEARCHES):
        scene.load(table, {})
    scene.apply(1)
    return scene


OF_ALL: list[dict[str, Any]] = [
    {"query_string": {"query": "kiel OR 15"}},
    {"query_string": {"query": "kiel OR 15", "default_field": "*"}},
    {"query_string": {"query": "red", "default_field": "tit*"}},
    {"query_string": {"query": "red", "fields": ["ti*^2", "city"]}},
    {"query_string": {"query": "price:15 AND kiel"}},
    {"query_string": {"query": "ki*"}},
    {"query_string": {"query": "kiel", "fields": ["none*"]}},
    {"query_string": {"query": "title", "analyze_wildcard": True, "default_operator": "AND"}},
    {"simple_query_string": {"query": "kiel | 15"}},
    {"simple_query_string": {"query": "red +boat", "fields": ["*"]}},
    {"multi_match": {"query": "kiel boat"}},
    {"multi_match": {"query": "15", "fields": ["*"], "type": "best_fields"}},
    {"multi_match": {"query": "red", "fields": "ti*"}},
    {"bool": {"must_not": {"query_string": {"query": "15"}}, "filter": [{"exists": {"field": "city"}}]}},
    {
        "constant_score": {
            "filter": {"dis_max": {"queries": [{"multi_match": {"query": "ulm"}}, {"term": {"price": 5}}]}}
        }
    },
]


"""Queries that name no field, or some by a pattern: what a search box sends."""


def test_a_query_of_no_named_field_matches_as_it_is_searched(scene: Scene, search_url: str) -> None:
    rows = [
        listing(7, "red boat", 15, "Bonn"),
        listing(8, "blue bicycle", 4, "Kiel"),
        listing(9, "a title of 15 words", None, None),
        listing(10, "red boat", 5, "Ulm"),
        listing(11, "red boat", 15, "Kiel"),
    ]
    scene.apply(2, {(row["id"],): row for row in rows[:3]})
    scene.apply(3, searches={(n,): saved(n, query) for n, query in enumerate(OF_ALL)})
    scene.apply(4, {(row["id"],): row for row in rows[3:]})
    assert scene.remarks() == []
    index = f"{scene.settings.prefix}-public-listings"
    found = {(n, id) for n, query in enumerate(OF_ALL) for id in found_by(search_url, index, query)}
    assert scene.told() == found
    assert {n for n, _ in found} >= {*range(len(OF_ALL))} - {6, 7}


def test_a_pattern_in_the_text_of_a_query_is_told_with_what_helps(scene: Scene) -> None:
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, {"query_string": {"query": "ti\\*:red"}})})
    [told] = scene.remarks()
    assert "its text asks for fields by the pattern [ti*]: name its fields, under `fields`" in told


def found_by(url: str, index: str, query: Any) -> set[int]:
    found = httpx.post(f"{url}/{index}/_search", json={"query": query, "size": 100}).raise_for_status().json()
    return {hit["_source"]["id"] for hit in found["hits"]["hits"]}


class Poisoned:
    """A node that two queries are too much for: one of poison whenever it is searched, the other at row 13."""

    second = json.dumps('{"id":2}')[1:-1].encode()
    """The key of that query, as requests have it."""

    def __init__(self) -> None:
        self._is_gone = False

    def watch(self, body: bytes) -> None:
        self._is_gone = self._is_gone or (b'"delete"' in body and self.second in body)

    def fail(self, body: bytes) -> tuple[int, Any] | None:
        if b"poison" in body:
            return 500, {"error": {"type": "task_cancelled_exception", "reason": "it has run for too long"}}
        among = b'"terms":{"_cdc_key"' in body
        if self._is_gone or b'"percolate"' not in body or b'"id":13' not in body or (among and self.second not in body):
            return None
        return 429, {"error": {"type": "circuit_breaking_exception", "reason": "data too large"}}


def test_a_query_that_only_fails_is_stopped_and_the_others_go_on(
    make_scene: Callable[..., Scene], search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes too long, or more than the node has, at its first search or at a later row."""
    monkeypatch.setattr(search, "FIRST_WAIT_SECONDS", 0.01)
    node = Poisoned()
    with Faulty(search_url, node.watch, node.fail).listening() as url:
        scene = ready(make_scene(url=url))
        queries: dict[int, dict[str, Any]] = {1: {"match": {"title": "poison"}}, 2: {"term": {"price": 5}}, 3: ALL}
        scene.apply(2, {(7,): listing(7)}, {(n,): saved(n, query) for n, query in {**queries, 4: CHEAP}.items()})
        assert scene.told() == {(2, 7), (3, 7)}
        [told] = scene.remarks()
        assert "where id = 1" in told
        assert "OpenSearch answers all other queries, but not this one: it has run for too long" in told
        scene.apply(3, {(13,): listing(13)})
        assert scene.told() == {(3, 7), (3, 13)}
        [told] = scene.remarks()
        assert "where id = 2" in told
        assert "data too large" in told
        scene.follower.close()


def test_rows_that_take_too_long_together_are_matched_in_halves(
    make_scene: Callable[..., Scene], search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No query is to blame when all of them together are slow."""
    monkeypatch.setattr(evaluation, "FEW_DOCUMENTS", 1)
    asked = list[int]()

    def fail(body: bytes) -> tuple[int, Any] | None:
        if b'"percolate"' not in body:
            return None
        asked.append(body.count(b'"title"'))
        return (500, {"error": {"reason": "it has run for too long"}}) if asked[-1] > 2 else None

    with Faulty(search_url, search_fault=fail).listening() as url:
        scene = ready(make_scene(url=url, documents_at_once=8))
        scene.apply(2, searches={(1,): saved(1, ALL), (2,): saved(2, CHEAP)})
        scene.apply(3, {(n,): listing(n, price=n) for n in range(11)})
        assert scene.told() == {*((1, n) for n in range(11)), *((2, n) for n in range(5))}
        assert scene.remarks() == []
        # later requests are as small from the start
        assert asked == [8, 4, 2, 2, 4, 2, 2, 2, 1]
        scene.follower.close()


def test_a_node_that_answers_nothing_stops_no_query(
    make_scene: Callable[..., Scene], search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FIRST_WAIT_SECONDS", 0.01)
    failing = [False]

    def fail(body: bytes) -> tuple[int, Any] | None:
        return (503, {"error": {"reason": "busy"}}) if failing[0] else None

    with Faulty(search_url, search_fault=fail).listening() as url:
        scene = ready(make_scene(url=url))
        scene.apply(2, searches={(1,): saved(1, ALL)})
        rows: list[dict[Key, Row | None]] = [{(7,): listing(7)}, {}]
        for news in rows:
            failing[0] = True
            with pytest.raises(UnreachableError):
                scene.apply(3, news, {(2,): saved(2, ALL)} if not news else {})
            failing[0] = False
        scene.apply(3, {(7,): listing(7)}, {(2,): saved(2, ALL)})
        assert scene.told() == {(1, 7), (2, 7)}
        assert scene.remarks() == []
        scene.follower.close()


def test_the_query_with_the_most_matches_is_refused_beyond_the_memory(make_scene: Callable[..., Scene]) -> None:
    scene = ready(make_scene(match_bytes=MATCH_BYTES * 6))
    scene.apply(2, {(n,): listing(n, price=n) for n in range(3, 7)}, {(1,): saved(1, ALL), (2,): saved(2, CHEAP)})
    assert scene.told() == {*((1, n) for n in range(3, 7)), (2, 3), (2, 4)}
    assert scene.remarks() == []
    scene.apply(3, {(n,): listing(n, price=n) for n in range(6, 9)})
    assert scene.told() == scene.present() == {(2, 3), (2, 4)}
    # at its first search, too
    scene.apply(4, {}, {(3,): saved(3, ALL)})
    assert scene.told() == {(2, 3), (2, 4)}
    remarks = scene.remarks()
    assert len(remarks) == 2
    for told in remarks:
        assert "the matches of all queries would be more than 6 (match_bytes), and it has the most" in told


def test_a_query_that_fails_at_a_row_leaves_its_room_to_others(make_scene: Callable[..., Scene]) -> None:
    queries = {"table": "saved_searches", "column": "query", "scripts": True}
    scene = ready(make_scene(match_bytes=MATCH_BYTES * 6, queries=queries))
    failing = {"script": {"script": {"source": "10 / doc['price'].value > 3"}}}
    scene.apply(2, {(n,): listing(n, price=2) for n in range(3)}, {(1,): saved(1, failing), (2,): saved(2, ALL)})
    scene.apply(3, {(n,): listing(n, price=n - 3) for n in range(3, 6)})
    assert scene.told() == {(2, n) for n in range(6)}


def test_a_query_that_is_deleted_leaves_its_room_once(make_scene: Callable[..., Scene]) -> None:
    scene = ready(make_scene(match_bytes=MATCH_BYTES * 6))
    scene.apply(2, {(n,): listing(n) for n in range(3)}, {(1,): saved(1, ALL), (2,): saved(2, ALL)})
    scene.apply(3, {(n,): listing(n, price=7) for n in range(7)}, {(1,): None})
    assert scene.told() == set()


UNLIKE: dict[str, dict[str, Any]] = {
    "more_like_this": {"more_like_this": {"fields": ["title"], "like": "boat", "min_term_freq": 1}},
    "min_score": {"bool": {"must": [{"function_score": {"query": ALL, "min_score": 2}}]}},
    "looked up": {"terms": {"title": {"index": "i", "id": "1", "path": "p"}}},
    "[hybrid]": {"hybrid": {"queries": []}},
    "queries.scripts": {"bool": {"filter": {"script": {"script": {"source": "true"}}}}},
    "percolate": {"percolate": {"field": "q", "document": {}}},
    "wrapper": {"wrapper": {"query": "e30="}},
}


def test_what_may_match_otherwise_than_it_is_searched_is_refused(scene: Scene) -> None:
    queries = dict(enumerate(UNLIKE.values()))
    scene.apply(2, {(7,): listing(7)}, {(n,): saved(n, query) for n, query in queries.items()})
    assert scene.told() == set()
    told = sorted(scene.remarks())
    assert len(told) == len(UNLIKE)
    for part, line in zip(UNLIKE, told, strict=True):
        assert part in line


def test_a_query_that_fails_at_a_row_is_refused(make_scene: Callable[..., Scene]) -> None:
    scene = ready(make_scene(queries={"table": "saved_searches", "column": "query", "scripts": True}))
    failing = {"script": {"script": {"source": "10 / doc['price'].value > 3"}}}
    scene.apply(2, {(7,): listing(7, price=2)}, {(1,): saved(1, failing), (2,): saved(2, ALL)})
    assert scene.told() == {(1, 7), (2, 7)}
    scene.apply(3, {(8,): listing(8, price=0)})
    assert scene.told() == {(2, 7), (2, 8)}
    [told] = scene.remarks()
    assert told.startswith(
        "public.saved_searches: the query where id = 1 is refused for rows of public.listings: it fails at a row: "
    )
