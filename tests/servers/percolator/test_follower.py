"""The percolator on real servers, beyond random histories: events, refused queries, lost and foreign indexes."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from cdc.columns.feed import FeedBatch, FeedRows
from cdc.core.errors import CdcError, PreconditionError, RefusedError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.clients.topics import Admin
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.layout import Searchable
from cdc.sinks.percolator import search
from cdc.sinks.percolator.evaluation import Evaluation, Outcome
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.matches import Change, Matches
from cdc.sinks.percolator.queries import Queries
from tests.contract.fed import changed
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


def test_a_table_that_cannot_be_matched_keeps_its_matches_and_the_others_go_on(
    make_scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make_scene(tables=["listings", "boats"])
    scene.follower.prepare([LISTINGS, SEARCHES, BOATS])
    for table in (LISTINGS, SEARCHES, BOATS):
        scene.load(table, {})
    scene.apply(1)
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, ALL), (2,): saved(2, {"term": {"sails": 2}})})
    assert scene.told() == {(1, 7)}
    look = Evaluation.of_changes

    def fail(evaluation: Evaluation, queries: Queries, changes: Iterable[FeedRows]) -> Outcome:
        if evaluation.rows.table.name == LISTINGS.name:
            raise ValueError("what nobody has thought of")
        return look(evaluation, queries, changes)

    with monkeypatch.context() as patched:
        patched.setattr(Evaluation, "of_changes", fail)
        news = {LISTINGS.name: changed(LISTINGS, {(7,): None, (8,): listing(8)})}
        scene.follower.apply(FeedBatch({**news, BOATS.name: changed(BOATS, {(9,): {"id": 9, "sails": 2}})}), at(3))
    assert scene.told() == {(1, 7), (1, 9), (2, 9)}
    [told] = scene.remarks()
    assert told.startswith("public.listings: an error that cdc does not know")
    assert "ValueError: what nobody has thought of; its matches stay as they are → see the log" in told
    scene.apply(4)
    assert scene.told() == {(1, 8), (1, 9), (2, 9)}
    assert scene.remarks() == []


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


@pytest.mark.parametrize("lost", ["present", "events", "position"])
def test_a_topic_that_goes_under_the_writer_is_made_again(scene: Scene, lost: str) -> None:
    scene.apply(2, {(7,): listing(7)}, {(1,): saved(1, ALL)})
    with Admin(scene.log) as admin:
        admin.delete_wholly([getattr(scene.topics, lost).name])
    with suppress(CdcError):
        scene.apply(3, {(8,): listing(8)})
    # as `cdc follow` tries again
    scene.follower.prepare([LISTINGS, SEARCHES])
    scene.apply(3, {(8,): listing(8)})
    scene.apply(4, {(9,): listing(9)})
    assert scene.present() == {(1, 7), (1, 8), (1, 9)}
    # what was told is not known any more, and told once more
    assert {event["row"]["id"] for event in scene.events()} >= {8, 9}


def test_matches_that_are_only_half_noted_are_read_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.apply(2, searches={(1,): saved(1, ALL)})
    noted, put = list[Change](), Matches.put

    def fail(there: Matches, change: Change) -> None:
        if noted:
            raise MemoryError
        noted.append(change)
        put(there, change)

    with monkeypatch.context() as patched:
        patched.setattr(Matches, "put", fail)
        with pytest.raises(MemoryError):
            scene.apply(3, {(7,): listing(7), (8,): listing(8)})
    # the batch before was told: it does not come again
    scene.apply(4, {(7,): None, (8,): None})
    assert scene.told() == scene.present() == set()
    assert len(scene.events()) == 4


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
    with pytest.raises(RefusedError, match="another `cdc follow` has moved the position"):
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
