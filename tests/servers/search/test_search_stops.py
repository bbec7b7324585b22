"""Errors of the cluster: one of a table stops only that table; a block is reported with its remedy, and retried."""

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from opensearchpy import OpenSearch
from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch, FeedRows
from cdc.core.containment import LOG
from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.table import Column, Kind, Table
from cdc.sinks.lake.feed.commit_changes import LazyParts
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.layout import index_name, refusals_index
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.indexes import Indexes
from tests.contract.fed import changed, copy_of, keyed
from tests.contract.followers import OTHERS, bookmark
from tests.contract.search_harness import positions_refused
from tests.servers.search.faulty_node import Faulty
from tests.servers.search.play import MARK, ROWS, at, follower, hits, name, one, reason, started, written
from tests.support.histories import THINGS
from tests.support.model import Row

__all__ = ["follower", "name"]


def refusing(url: str, index: str, field: str) -> None:
    """Have the index refuse texts that are no numbers, as its owner does who adds a way to search them."""
    kept = {"keyword": {"type": "keyword", "ignore_above": 1024}, "number": {"type": "integer"}}
    mapping = {"properties": {field: {"type": "text", "fields": kept}}}
    httpx.put(f"{url}/{index}/_mapping", json=mapping).raise_for_status()


def test_rejected_document_stops_only_its_table(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    follower.prepare([OTHERS])
    for table in (THINGS, OTHERS):
        follower.load(table, copy_of(spark, table, ROWS), MARK)
    refusing(search_url, index_name(name, THINGS.name), "big")
    row: Row = {"id": 3, "small": 77, "big": "secret"}
    both = {table.name: changed(table, {(3,): row}) for table in (THINGS, OTHERS)}
    # killed when everything is written but the position: the batch comes again, and the table has no copy already
    with positions_refused(KeyboardInterrupt), suppress(KeyboardInterrupt):
        follower.apply(FeedBatch(both), at(1))
    killed = SearchFollower(spark, follower._indexes.settings, name, "search")
    assert (killed.position(), killed.bookmarks()) == (None, {OTHERS.name: MARK})
    again = SearchFollower(spark, follower._indexes.settings, name, "search")
    again.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    refusing(search_url, index_name(name, THINGS.name), "big")
    again.apply(FeedBatch(both), at(1))
    told = r"public\.things: the index refused a document where id = 3: failed to parse field \[big\.number\]"
    assert re.search(told, reason(again))
    assert "secret" not in reason(again)
    assert again.position() == at(1)
    assert again.bookmarks() == {OTHERS.name: MARK}
    assert keyed(again.rows(OTHERS), OTHERS)[3,] == row


def test_stopped_table_goes_on_with_its_new_copy(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    refusing(search_url, index_name(name, THINGS.name), "big")
    for offset in (1, 2):
        # what it misses meanwhile is not applied to it, and comes with its copy
        follower.apply(one(THINGS, 3, {"id": 3, "small": 77, "big": "secret"}), at(offset))
    asking = SearchFollower(spark, follower._indexes.settings, name, "search")
    assert asking.stops().keys() == {THINGS.name}
    less = {key: row for key, row in ROWS.items() if key != (3,)}
    follower.load(THINGS, copy_of(spark, THINGS, less), bookmark(7))
    assert (asking.bookmarks(), asking.stops()) == ({THINGS.name: bookmark(7)}, {})
    assert keyed(follower.rows(THINGS), THINGS) == less
    index = refusals_index(name)
    httpx.post(f"{search_url}/{index}/_refresh").raise_for_status()
    assert hits(search_url, index, {"term": {"table": "public.things"}}) == 1


def test_whatever_a_table_meets_stops_it_and_the_others_go_on(spark: SparkSession, follower: SearchFollower) -> None:
    follower.prepare([OTHERS])
    for table in (THINGS, OTHERS):
        follower.load(table, copy_of(spark, table, ROWS), MARK)

    def unreadable() -> Iterator[FeedRows]:
        raise ValueError("what nobody has thought of")
        yield

    fine = changed(OTHERS, {(3,): written(3, "new")})
    said = StringIO()
    # not pytest's: PySpark gives the handlers that are there a form of its own
    handler = logging.StreamHandler(said)
    LOG.addHandler(handler)
    try:
        follower.apply(FeedBatch({THINGS.name: LazyParts(unreadable), OTHERS.name: fine}), at(1))
    finally:
        LOG.removeHandler(handler)
    assert re.match(
        r"public\.things: an error that cdc does not know \(test_search_stops\.py:\d+\): ValueError: what nobody has"
        r" thought of → see the log; `cdc follow` tries to copy it again",
        reason(follower),
    )
    assert "Traceback" in said.getvalue()
    assert (follower.position(), follower.bookmarks()) == (at(1), {OTHERS.name: MARK})
    assert keyed(follower.rows(OTHERS), OTHERS)[3,]["big"] == "new"


def test_an_error_of_the_lake_stops_no_table(spark: SparkSession, follower: SearchFollower) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)

    def gone() -> Iterator[FeedRows]:
        raise HistoryLostError("the lake has lost it")
        yield

    with pytest.raises(HistoryLostError):
        follower.apply(FeedBatch({THINGS.name: LazyParts(gone)}), at(1))
    assert (follower.position(), follower.stops()) == (None, {})


def test_rejected_copy_stops_its_table(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    refuse_all = {"index.mapping.depth.limit": 20, "index.blocks.write": False, "index.sort.field": "none"}
    template = {"index_patterns": [f"{name}-public-things*"], "template": {"settings": refuse_all}}
    httpx.put(f"{search_url}/_index_template/{name}", json=template).raise_for_status()
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert "public.things: OpenSearch refuses its index" in reason(follower)
    httpx.delete(f"{search_url}/_index_template/{name}").raise_for_status()
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert follower.stops() == {}


def test_rejected_long_key_is_named(spark: SparkSession, follower: SearchFollower, search_url: str, name: str) -> None:
    table = Table(THINGS.name, (Column("id", Kind.TEXT), Column("text", Kind.TEXT)), ("id",))
    follower.load(table, copy_of(spark, table, {}), MARK)
    refusing(search_url, index_name(name, THINGS.name), "text")
    news = changed(table, {("k" * 600,): {"id": "k" * 600, "text": "no number"}})
    follower.apply(FeedBatch({table.name: news}), at(1))
    assert f"where id = {'k' * 80}: " in reason(follower)


UNFIT = {
    "n.exact": "column n.exact would be a part of column n",
    "n.": "columns n and n. would be one field",
    "n.a.b": "column n.a.b would be a part of column n",
    ".a": "no field .a, in which nothing stands between dots",
    "a..b": "no field a..b, in which nothing stands between dots",
    ".": "no field ., in which",
    "_id": "keeps the name _id",
    "_source.x": "keeps the name _source",
    "_feature": "keeps the name _feature",
    ".".join("abcdefghijklmnopqrstu"): "which has more than 19 dots",
}
FIT = (
    ("a.b", "b.", " ", "_size", "n ", "*", "x.y", "x.z", 'q"', "b\\c"),
    (".".join("abcdefghijklmnopqrst"),),
)
"""By tables that can have them all."""


def test_invalid_index_names_are_refused_beforehand(spark: SparkSession, follower: SearchFollower) -> None:
    """The rule is OpenSearch's: a table that we refuse is refused there, too."""
    for odd, told in UNFIT.items():
        load_columns(spark, follower, odd)
        assert told in reason(follower), odd
        with patch("cdc.sinks.opensearch.layout._unfit_name", lambda names: None):
            load_columns(spark, follower, odd)
        assert odd == "n." or "OpenSearch refuses its index" in reason(follower), odd


def test_valid_index_names_are_held(spark: SparkSession, follower: SearchFollower) -> None:
    for names in FIT:
        table, row = load_columns(spark, follower, *names)
        assert keyed(follower.rows(table), table) == {(1,): row}


def load_columns(spark: SparkSession, follower: SearchFollower, *names: str) -> tuple[Table, Row]:
    """Load a table that has these columns, too, with one row."""
    columns = (Column("id", Kind.INTEGER), Column("n", Kind.NUMERIC), *(Column(name, Kind.TEXT) for name in names))
    table = Table(THINGS.name, columns, ("id",))
    row: Row = {"id": 1, "n": "1.5", **dict.fromkeys(names, "x")}
    follower.load(table, copy_of(spark, table, {(1,): row}), MARK)
    return table, row


def test_column_that_cannot_be_added_stops_its_table(spark: SparkSession, follower: SearchFollower) -> None:
    follower.prepare([OTHERS])
    for table in (THINGS, OTHERS):
        follower.load(table, copy_of(spark, table, ROWS), MARK)
    wider = Table(THINGS.name, (*THINGS.columns, Column("big.x", Kind.TEXT)), THINGS.key)
    follower.prepare([wider, OTHERS])
    assert "public.things: column big.x would be a part of column big" in reason(follower)
    assert "leave_out" in reason(follower)
    assert follower.bookmarks() == {OTHERS.name: MARK}


BLOCKS = {
    "index.blocks.write": r"index \S+ is blocked: index write .* → lift the block: PUT /\S+/_settings .*blocks\.write",
    "index.blocks.read_only": r"is blocked: index read-only .* → lift the block: PUT .*index\.blocks\.read_only",
    "index.blocks.read_only_allow_delete": "is read-only, since a disk is nearly full: .*flood-stage.* → make room",
}


def set_on(url: str, index: str, setting: str, value: object) -> None:
    httpx.put(f"{url}/{index}/_settings", json={setting: value}).raise_for_status()


@pytest.mark.parametrize("block", BLOCKS)
def test_blocked_index_names_its_block(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str, block: str
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    index = index_name(name, THINGS.name)
    set_on(search_url, index, block, True)
    with pytest.raises(PreconditionError, match=BLOCKS[block]):
        follower.apply(one(THINGS, 1, written(1, "new")), at(1))
    assert (follower.position(), follower.stops()) == (None, {})
    set_on(search_url, index, block, None)
    follower.apply(one(THINGS, 1, written(1, "new")), at(1))
    assert keyed(follower.rows(THINGS), THINGS)[1,] == written(1, "new")


def test_closed_index_is_reported_and_kept(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    index = index_name(name, THINGS.name)
    httpx.post(f"{search_url}/{index}/_close").raise_for_status()
    # it has not lost its rows
    assert follower.bookmarks() == {THINGS.name: MARK}
    with pytest.raises(PreconditionError, match=r"index \S+\.copy1 is closed → open it: POST /\S+\.copy1/_open"):
        follower.apply(one(THINGS, 1, None), at(1))
    httpx.post(f"{search_url}/{index}/_open").raise_for_status()
    follower.apply(one(THINGS, 1, None), at(1))
    assert follower.position() == at(1)
    # one that is closed and has lost its name is no obstacle for the next copy
    httpx.post(f"{search_url}/{index}/_close").raise_for_status()
    httpx.post(
        f"{search_url}/_aliases", json={"actions": [{"remove": {"index": f"{index}.copy1", "alias": index}}]}
    ).raise_for_status()
    assert follower.bookmarks() == {}
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert keyed(follower.rows(THINGS), THINGS) == ROWS


@pytest.mark.parametrize("row", [written(1, "new"), None], ids=["put", "delete"])
def test_index_deleted_during_a_batch_is_not_auto_created(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str, row: Row | None
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    index = index_name(name, THINGS.name)
    with open_client(follower._cluster) as client:
        there = follower._indexes.of_tables(client)
        httpx.delete(f"{search_url}/{index}.copy1").raise_for_status()
        with patch.object(Indexes, "of_tables", return_value=there):
            follower.apply(one(THINGS, 1, row), at(1))
    assert httpx.head(f"{search_url}/{index}").status_code == 404
    assert [stop.is_lost for stop in follower.stops().values()] == [True]


def test_index_deleted_while_it_is_filled_is_no_copy(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    made = f"{index_name(name, THINGS.name)}.copy1"
    begin = Indexes.begin_copy

    def begin_and_lose(indexes: Indexes, client: OpenSearch, table: Table) -> tuple[list[str], str]:
        begun = begin(indexes, client, table)
        httpx.delete(f"{search_url}/{made}").raise_for_status()
        return begun

    with patch.object(Indexes, "begin_copy", begin_and_lose):
        follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    # the documents have created it again
    assert httpx.head(f"{search_url}/{made}").status_code == 200
    told = f"public.things: index {made} was deleted while it was filled → `cdc follow` copies it again from the lake"
    assert (reason(follower).startswith(told), follower.bookmarks()) == (True, {})
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert keyed(follower.rows(THINGS), THINGS) == ROWS
    assert (follower.stops(), follower.bookmarks()) == ({}, {THINGS.name: MARK})


ANSWERS = [
    (401, {"error": {"type": "x"}}, "does not let anybody without a user name in → check username and password"),
    (
        403,
        {"error": {"type": "security_exception", "reason": "no permissions for [indices:data/write/bulk]"}},
        r"without a user name do this: no permissions for \[indices:data/write/bulk\] → give it the",
    ),
    (
        503,
        {"error": {"type": "cluster_manager_not_discovered_exception", "reason": "none"}},
        "has no cluster manager yet",
    ),
    (
        403,
        {"error": {"type": "cluster_block_exception", "reason": "blocked by: [FORBIDDEN/6/cluster read-only (api)];"}},
        r"is blocked: cluster read-only .* → lift the block: PUT /_cluster/settings .*cluster\.blocks\.read_only",
    ),
]


@pytest.mark.parametrize(("status", "answer", "told"), ANSWERS)
def test_errors_of_the_cluster_are_one_line(
    spark: SparkSession, search_url: str, name: str, status: int, answer: dict[str, Any], told: str
) -> None:
    with Faulty(search_url, lambda body: (status, answer)).listening() as url:
        follower = started(spark, url, name, bulk_retry_seconds=1)
        with pytest.raises((PreconditionError, UnreachableError), match=told):
            follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
