"""The search follower on a real node, beyond the contract's suite."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch
from cdc.columns.rows.digest import digest_of_copy
from cdc.columns.table_copy import FrameCopy, TableCopy
from cdc.core.errors import RefusedError, UnreachableError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.opensearch import write
from cdc.sinks.opensearch.client import list_names, open_client, refresh
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import index_name, positions_index, refusals_index
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.settings import SearchSettings
from tests.contract.every_value import check_every_value
from tests.contract.fed import SmallCopy, changed, copy_of, copy_of_frame, keyed
from tests.contract.followers import OTHERS, bookmark
from tests.servers.search.faulty_node import Faulty, items
from tests.servers.search.play import MARK, ROWS, at, follower, hits, name, one, reason, started, written
from tests.support.every_kind import EVERY_KIND, every_kind_rows
from tests.support.histories import THINGS
from tests.support.model import Key, Row

__all__ = ["follower", "name"]

FREE_OF_LISTENERS = "http://127.0.0.1:1"


def test_every_value_comes_back_exactly(spark: SparkSession, follower: SearchFollower) -> None:
    check_every_value(spark, follower, MARK)


def test_values_can_be_searched(spark: SparkSession, follower: SearchFollower, search_url: str, name: str) -> None:
    follower.load(EVERY_KIND, copy_of_frame(every_kind_rows(spark), EVERY_KIND), MARK)
    index = index_name(name, EVERY_KIND.name)
    exact = {"term": {"a decimal.exact": "1234567890123456789012345678.0123456789"}}
    assert hits(search_url, index, exact) == 2
    assert hits(search_url, index, {"range": {"a decimal": {"gt": 1e27}}}) == 2
    assert hits(search_url, index, {"match": {"a text": "ärger"}}) == 1
    assert hits(search_url, index, {"range": {"a timestamptz": {"lt": "1900-01-01"}}}) == 3
    assert hits(search_url, index, {"term": {"a date": "2024-02-29"}}) == 2
    both = [{"match": {"structs.texts": "a"}}, {"range": {"structs.total": {"gt": 1e27}}}]
    assert hits(search_url, index, {"nested": {"path": "structs", "query": {"bool": {"must": both}}}}) == 1


def test_an_index_of_several_shards_is_read_whole(spark: SparkSession, search_url: str, name: str) -> None:
    follower = started(spark, search_url, name, shards=3)
    many = spark.range(5000).selectExpr("cast(id AS int) AS id", "cast(id AS int) AS small", "'x' AS big")
    follower.load(THINGS, copy_of_frame(many, THINGS), MARK)
    assert sorted(row.id for row in follower.rows(THINGS).collect()) == list(range(5000))
    assert follower.digest(THINGS) == digest_of_copy(FrameCopy(many, THINGS), THINGS)


def test_a_small_copy_is_written_without_a_job(spark: SparkSession, follower: SearchFollower) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    less: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": "new"} for n in (1, 50, 51)}
    follower.load(THINGS, SmallCopy.of(THINGS, less), bookmark(7))
    assert (keyed(follower.rows(THINGS), THINGS), follower.bookmarks()) == (less, {THINGS.name: bookmark(7)})
    follower.load(THINGS, SmallCopy.of(THINGS, {}), bookmark(8))
    assert keyed(follower.rows(THINGS), THINGS) == {}


def test_a_long_key_is_hashed(spark: SparkSession, follower: SearchFollower) -> None:
    table = Table(TableName("public", "long"), (Column("id", Kind.TEXT), Column("small", Kind.INTEGER)), ("id",))
    key = "k" * 600
    row: Row = {"id": key, "small": 1}
    follower.load(table, copy_of(spark, table, {(key,): row, (key + "x",): {"id": key + "x", "small": 2}}), MARK)
    news = changed(table, {(key,): {**row, "small": 3}, (key + "x",): None})
    follower.apply(FeedBatch({table.name: news}), at(1))
    assert keyed(follower.rows(table), table) == {(key,): {"id": key, "small": 3}}


def test_index_remembers_its_source(spark: SparkSession, follower: SearchFollower, name: str) -> None:
    mark = Bookmark(Lsn(2**62), 7_654_321_098_765_432_109, 3)
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), mark)
    assert follower.bookmarks() == {THINGS.name: mark}
    assert SearchFollower(spark, follower._indexes.settings, name, "other").bookmarks() == {}


def test_foreign_index_is_refused(spark: SparkSession, search_url: str, name: str) -> None:
    httpx.put(f"{search_url}/{index_name(name, THINGS.name)}").raise_for_status()
    follower = started(spark, search_url, name)
    assert f"index {name}-public-things is there already" in reason(follower)
    # nor is it taken by a copy, until somebody takes it away
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert follower.bookmarks() == {}
    httpx.delete(f"{search_url}/{index_name(name, THINGS.name)}").raise_for_status()
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert (follower.bookmarks(), follower.stops()) == ({THINGS.name: MARK}, {})


def test_index_of_another_follower_is_refused(spark: SparkSession, follower: SearchFollower, name: str) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    other = SearchFollower(spark, follower._indexes.settings, name, "other")
    other.prepare([THINGS])
    assert "is there already" in reason(other)


def test_a_table_without_a_key_is_stopped(spark: SparkSession, follower: SearchFollower) -> None:
    keyless = Table(THINGS.name, THINGS.columns, ())
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    follower.prepare([keyless, OTHERS])
    assert reason(follower).startswith("public.things has no primary key")
    assert follower.bookmarks() == {}


def load_and_die(follower: SearchFollower, copy: TableCopy) -> None:
    dying = patch("opensearchpy.client.IndicesClient.put_mapping", side_effect=KeyboardInterrupt)
    with dying, pytest.raises(KeyboardInterrupt):
        follower.load(THINGS, copy, bookmark(7))


def test_interrupted_load_is_repeated(spark: SparkSession, follower: SearchFollower) -> None:
    copy = copy_of(spark, THINGS, ROWS)
    load_and_die(follower, copy)
    assert follower.bookmarks() == {}
    follower.apply(one(THINGS, 1, None), at(1))
    assert "has no copy" in reason(follower)
    follower.load(THINGS, copy, bookmark(7))
    assert keyed(follower.rows(THINGS), THINGS) == ROWS
    assert (follower.bookmarks(), follower.stops()) == ({THINGS.name: bookmark(7)}, {})


def test_old_index_is_searched_until_the_new_one_is_complete(
    spark: SparkSession, follower: SearchFollower, search_url: str, name: str
) -> None:
    old: dict[Key, Row] = {(99,): written(99, "old")}
    follower.load(THINGS, copy_of(spark, THINGS, old), MARK)
    load_and_die(follower, copy_of(spark, THINGS, ROWS))
    assert keyed(follower.rows(THINGS), THINGS) == old
    assert follower.bookmarks() == {THINGS.name: MARK}
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), bookmark(7))
    assert keyed(follower.rows(THINGS), THINGS) == ROWS
    # neither the old one nor what the dead one left is there any more
    assert len(httpx.get(f"{search_url}/{index_name(name, THINGS.name)}*").json()) == 1


def bulk(follower: SearchFollower, version: int, row: Row | None) -> None:
    with open_client(follower._cluster) as client:
        there = follower._indexes.of_tables(client)
        follower._writer.apply(client, there[THINGS.name], one(THINGS, 1, row).tables[THINGS.name], version)


def test_late_write_of_an_old_version_changes_nothing(
    spark: SparkSession, follower: SearchFollower, search_url: str
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    follower.apply(one(THINGS, 1, written(1, "new")), at(9))
    bulk(follower, (1 << 48) + 5, written(1, "late"))
    follower.apply(one(THINGS, 2, None), at(10))
    follower.apply(one(THINGS, 1, None), at(11))
    bulk(follower, (1 << 48) + 5, written(1, "revived"))
    httpx.post(f"{search_url}/{follower._indexes.name_of(THINGS.name)}/_refresh").raise_for_status()
    assert keyed(follower.rows(THINGS), THINGS).keys() == ROWS.keys() - {(1,), (2,)}


@pytest.mark.parametrize("row", [written(1, "theirs"), None])
def test_conflict_with_a_foreign_version_is_an_error(
    spark: SparkSession, follower: SearchFollower, row: Row | None
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    bulk(follower, 2 << 48, row)
    with pytest.raises(RefusedError, match="another writer has written to index"):
        follower.apply(one(THINGS, 1, written(1, "ours")), at(9))
    assert follower.position() is None


FAULTS = [
    pytest.param(lambda body: (429, {"error": {"reason": "busy"}}), id="429"),
    pytest.param(lambda body: (503, {"error": {"reason": "no master"}}), id="503"),
    pytest.param(lambda body: (200, items(body, 429)), id="items 429"),
    pytest.param(lambda body: (200, items(body, 503)), id="items 503"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_transient_errors_are_retried(
    spark: SparkSession, search_url: str, name: str, fault: Callable[[bytes], tuple[int, Any]]
) -> None:
    left = [2]

    def twice(body: bytes) -> tuple[int, Any] | None:
        left[0] -= 1
        return fault(body) if left[0] >= 0 else None

    with Faulty(search_url, twice).listening() as url:
        follower = started(spark, url, name)
        follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
        assert keyed(follower.rows(THINGS), THINGS) == ROWS


def test_too_large_a_request_is_split(spark: SparkSession, search_url: str, name: str) -> None:
    small = Faulty(search_url, lambda body: (413, {}) if len(body) > 300 else None)
    with small.listening() as url:
        follower = started(spark, url, name)
        follower.load(THINGS, replace(copy_of(spark, THINGS, ROWS), tasks=1), MARK)
        assert keyed(follower.rows(THINGS), THINGS) == ROWS
        assert max(small.sizes) > 300
        follower.apply(one(THINGS, 1, written(1, "x" * 400)), at(1))
        assert "where id = 1: the document is larger than a request may be" in reason(follower)


def test_a_batch_asks_for_nothing_that_its_writer_knows(spark: SparkSession, search_url: str, name: str) -> None:
    node = Faulty(search_url, lambda body: None)
    with node.listening() as url:
        follower = started(spark, url, name)
        follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
        follower.apply(one(THINGS, 1, written(1, "first")), at(1))
        node.asked.clear()
        follower.prepare([THINGS])
        follower.apply(one(THINGS, 1, written(1, "second")), at(2))
        assert follower.stops() == {}
    index = index_name(name, THINGS.name)
    place = f"/{positions_index(name)}/_doc/{name}%2Fsearch"
    # the mark of the batch goes first, and the position last
    assert node.asked == [f"PUT {place}", f"POST /{index}/_bulk", f"POST /{index}/_refresh", f"PUT {place}"]


def test_more_names_than_a_line_takes_are_refreshed(search_url: str, name: str) -> None:
    names = [f"{name}-{number:03}-{'long' * 25}" for number in range(60)]
    httpx.put(f"{search_url}/{name}", json={"aliases": {each: {} for each in names}}).raise_for_status()
    assert httpx.post(f"{search_url}/{','.join(names)}/_refresh").status_code == 400
    with open_client(Cluster(search_url)) as client:
        refresh(client, names)


def test_busy_node_is_unreachable_after_retries(spark: SparkSession, search_url: str, name: str) -> None:
    with Faulty(search_url, lambda body: (429, {"error": {"reason": "busy"}})).listening() as url:
        follower = started(spark, url, name, bulk_retry_seconds=1)
        with pytest.raises(UnreachableError, match="has too much to do: busy, for 1 s"):
            follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)


def test_node_that_is_down_is_reported_in_one_line(spark: SparkSession, name: str) -> None:
    follower = SearchFollower(spark, SearchSettings(kind="search", url=FREE_OF_LISTENERS), name, "search")
    with pytest.raises(UnreachableError, match=r"OpenSearch http://127\.0\.0\.1:1 does not answer: .*refused") as down:
        follower.position()
    assert "\n" not in str(down.value)
    target = write.Target(Cluster(FREE_OF_LISTENERS), "i", ("id",), 1 << 48, 10, 1000, 1)
    with pytest.raises(UnreachableError, match="does not answer"):
        write.fill(copy_of(spark, THINGS, ROWS), THINGS, target)


def test_a_search_sees_whole_batches(spark: SparkSession, follower: SearchFollower, search_url: str) -> None:
    """What is written shows with the refresh at the end of its batch, in every table, and not before."""
    follower.prepare([OTHERS])
    for table in (THINGS, OTHERS):
        follower.load(table, copy_of(spark, table, ROWS), MARK)
    both = {table.name: changed(table, {(1,): written(1, "new")}) for table in (THINGS, OTHERS)}
    with (
        patch("opensearchpy.client.IndicesClient.refresh", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        follower.apply(FeedBatch(both), at(1))
    assert [keyed(follower.rows(table), table)[1,]["big"] for table in (THINGS, OTHERS)] == ["old 1", "old 1"]
    # others can tell how far its rows may be
    asking = SearchFollower(spark, follower._indexes.settings, follower._owner.pipeline, "search")
    assert (asking.position(), asking.furthest()) == (None, at(1))
    follower.apply(FeedBatch(both), at(1))
    assert (asking.position(), asking.furthest()) == (at(1), at(1))
    assert [keyed(follower.rows(table), table)[1,]["big"] for table in (THINGS, OTHERS)] == ["new", "new"]


@given(st.lists(st.text(min_size=1, max_size=255, alphabet="ab")), st.integers(255, 1000))
def test_lists_of_names_fit_and_have_all_of_them(names: list[str], most: int) -> None:
    lists = [*list_names(names, most)]
    assert all(0 < len(each) <= most for each in lists)
    assert [name for each in lists for name in each.split(",")] == names


names = st.builds(TableName, st.text(min_size=1, max_size=63), st.text(min_size=1, max_size=63))


@given(prefix=st.from_regex(r"[a-z][a-z0-9_-]{0,99}", fullmatch=True), first=names, second=names)
def test_no_two_tables_share_an_index(prefix: str, first: TableName, second: TableName) -> None:
    name = index_name(prefix, first)
    assert name == name.lower()
    assert len(name.encode()) <= 255
    assert not set(name) & set('\\/*?"<>| ,#:')
    assert (name == index_name(prefix, second)) == (first == second)
    assert name not in (positions_index(prefix), refusals_index(prefix))
