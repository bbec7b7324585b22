"""`cdc rebuild` on the real parts, beside a reader who never finds fewer rows, or older ones, and beside writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from cdc.core.errors import ConfigurationError, DivergenceError, PreconditionError, RefusedError
from cdc.core.table import TableName
from cdc.run.rebuild.work import From, Work
from cdc.run.rebuilds import describe_rebuilds
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.opensearch.layout import BESIDE, KEPT
from tests.servers.everyday.rebuild.rebuilding import (
    MADE,
    OVER,
    SUMS,
    THINGS,
    Killed,
    check_equal,
    generations,
    index_of,
    kill_at,
    read_index,
    rebuilder,
    rows_of,
    written,
)
from tests.support.beside import repeated
from tests.support.cdc_inprocess import bootstrap, catch_up, following
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.spoil import Spoil, spoil_view
from tests.support.waiting import until


@contextmanager
def watched(read: Callable[[], tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """A reader meanwhile, who never finds fewer rows, or older ones."""
    seen = [read()]
    with repeated(lambda: seen.append(read()), 0.02):
        yield seen
    assert all(one[0] <= two[0] and one[1] <= two[1] for one, two in pairwise(seen)), seen


@pytest.mark.parametrize("by", [From.LOG, further("lake", From.LAKE)])
def test_an_index_is_swapped_at_one_position_and_back(pipeline: Pipeline, spark: SparkSession, by: From) -> None:
    old = index_of(pipeline)
    with following(pipeline, spark) as running, watched(lambda: read_index(pipeline)) as seen, written(pipeline):
        running.wait_for("following")
        [plan] = rebuilder(pipeline, spark, "search", by=by).plan()
        assert plan.bytes
        assert rows_of(rebuilder(pipeline, spark, "search", by=by).run()) == {THINGS, SUMS}
        new, begun = index_of(pipeline), len(seen)
        assert new != old
        running.wait_for("search: rests")
        until(lambda: seen[-1] > seen[begun - 1], "it is followed on")
        assert generations(pipeline).list_tables(KEPT) == [THINGS, SUMS]
        assert rows_of(rebuilder(pipeline, spark, "search").back_out()) == {THINGS, SUMS}
        assert index_of(pipeline) == old
        until(lambda: seen[-1] > seen[begun], "it is followed on")
    check_equal(pipeline, spark)
    assert rebuilder(pipeline, spark, "search").drop_old() == [THINGS, SUMS]
    with pytest.raises(PreconditionError, match="nothing is kept of before a rebuild of search"):
        rebuilder(pipeline, spark, "search").back_out()
    assert not describe_rebuilds(pipeline.opened())


def test_what_is_not_equal_is_not_swapped_and_can_be_given_up(pipeline: Pipeline, spark: SparkSession) -> None:
    old, url = index_of(pipeline), pipeline.servers.values.search_url
    begin = Work.begin

    def begin_and_spoil(work: Work, step: str, of: int = 0) -> None:
        begin(work, step, of)
        if step == "compares":
            beside = f"{url}/{generations(pipeline).indexes.name_of(THINGS)}{BESIDE}"
            gone = httpx.post(f"{beside}/_delete_by_query?refresh", json={"query": {"term": {"id": 7}}})
            assert gone.json()["deleted"] == 1

    with (
        patch.object(Work, "begin", begin_and_spoil),
        pytest.raises(DivergenceError, match=r"public\.things has") as told,
    ):
        rebuilder(pipeline, spark, "search").run()
    assert "Nothing was swapped" in str(told.value)
    assert index_of(pipeline) == old
    assert rows_of(rebuilder(pipeline, spark, "search").back_out()) == set()
    assert not generations(pipeline).list_tables(BESIDE)
    check_equal(pipeline, spark)


@pytest.mark.parametrize("follower", ["latest", further("alerts", "alerts")])
def test_topics_and_matches_are_written_again_in_their_place(
    pipeline: Pipeline, spark: SparkSession, follower: str
) -> None:
    with following(pipeline, spark) as running, written(pipeline):
        running.wait_for("following")
        assert THINGS in rows_of(rebuilder(pipeline, spark, follower).run())
        running.wait_for(f"{follower}: rests")
        with pytest.raises(PreconditionError, match="has no way back"):
            rebuilder(pipeline, spark, follower).back_out()
    check_equal(pipeline, spark)


def read_delta(lake: Lake, cut: Cut | None, name: TableName, grows: str) -> tuple[int, int]:
    """The rows of a table as a cut names it, and the sum of what only grows, as other readers of Delta see them."""
    assert cut
    delta = DeltaTable(lake.folder(name), cut.versions[str(name)])
    asked = f"SELECT count(*) AS rows, sum({grows}) AS n FROM found"
    [found] = pa.table(QueryBuilder().register("found", delta).execute(asked)).to_pylist()
    return found["rows"], found["n"]


def read_view(pipeline: Pipeline) -> tuple[int, int]:
    """The rows of the view in its newest cut, and what only grows."""
    store = pipeline.opened().views
    return read_delta(store.lake, store.cuts.last(), SUMS, "n + rows")


def test_a_view_is_swapped_at_one_cut_and_back(pipeline: Pipeline, spark: SparkSession) -> None:
    spoil = f"UPDATE delta.`{pipeline.opened().views.lake.folder(SUMS)}` SET n = n - 1 WHERE of = 3"
    with following(pipeline, spark) as running, watched(lambda: read_view(pipeline)), written(pipeline):
        running.wait_for("following")
        assert rows_of(rebuilder(pipeline, spark, str(SUMS)).run()) == {SUMS, OVER}
        running.wait_for("views: rests")
        assert rows_of(rebuilder(pipeline, spark, str(SUMS)).back_out()) == {SUMS, OVER}
    check_equal(pipeline, spark)
    spark.sql(spoil)
    with patch.object(Work, "begin", kill_at("compares")), pytest.raises(Killed):
        rebuilder(pipeline, spark, str(SUMS)).run()
    rebuilder(pipeline, spark, str(SUMS)).run()
    check_equal(pipeline, spark)


def test_views_over_a_wrong_view_are_rebuilt_behind_it(pipeline: Pipeline, spark: SparkSession) -> None:
    def read_over() -> int:
        store = pipeline.opened().views
        return read_delta(store.lake, store.cuts.last(), OVER, "n")[1]

    right = read_over()
    spoil_view(pipeline.opened(), SUMS, Spoil([{"of": 3, "n": -1000, "rows": 1}], []))
    # what comes next brings the wrong row to the view over it
    pipeline.run("UPDATE things SET n = n + 1 WHERE of = 5")
    catch_up(pipeline, spark)
    assert read_over() < right
    assert [plan.what for plan in rebuilder(pipeline, spark, str(SUMS)).plan()] == [str(SUMS), str(OVER)]
    rebuilder(pipeline, spark, str(SUMS)).run()
    assert read_over() > right
    check_equal(pipeline, spark)


def read_lake(pipeline: Pipeline) -> tuple[int, int]:
    """The rows of things in the newest cut, and what only grows."""
    opened = pipeline.opened()
    return read_delta(opened.lake, opened.lake_follower.cuts.last(), THINGS, "n")


def test_a_table_is_copied_from_the_source_beside_and_back(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark) as running, watched(lambda: read_lake(pipeline)):
        running.wait_for("following")
        with written(pipeline):
            rebuilder(pipeline, spark, str(THINGS)).run()
            running.wait_for("lake: rests")
        assert rows_of(rebuilder(pipeline, spark, str(THINGS)).back_out()) == {THINGS}
    check_equal(pipeline, spark)
    # nobody follows now
    pipeline.run("UPDATE things SET n = n + 1")
    assert rows_of(rebuilder(pipeline, spark, "lake", THINGS).run()) == {THINGS}
    check_equal(pipeline, spark)
    assert rebuilder(pipeline, spark, "lake").drop_old() == [THINGS]


def test_a_history_stays_as_it_is_when_its_table_is_copied_beside(
    make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> None:
    """It has every change once, whatever is brought on from the log, and no gap."""
    pipeline = make_shared_pipeline(*MADE, tables=("public.things", "public.searches"))
    pipeline.configure("followers:\n", "history: [public.things]\n\nfollowers:\n")
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        running.wait_for("following")
        with written(pipeline):
            rebuilder(pipeline, spark, str(THINGS)).run()
            rebuilder(pipeline, spark, str(THINGS)).back_out()
    pipeline.run("UPDATE things SET n = n + 1")
    # the history is compared as well
    assert rows_of(rebuilder(pipeline, spark, "lake", THINGS).run()) == {THINGS, history_name(THINGS)}
    check_equal(pipeline, spark)
    lake = pipeline.opened().lake
    [epoch] = list_epochs(lake, THINGS, None)
    assert epoch.opened
    assert epoch.opened.facts.gaps == ()
    changes = """SELECT id, max(n) AS n, count(*) FILTER (WHERE _change = 'update') AS updates,
        count(*) FILTER (WHERE _change = 'copy') AS copies, count(*) AS rows FROM found WHERE id <= 300 GROUP BY id"""
    found = pa.table(QueryBuilder().register("found", DeltaTable(lake.folder(epoch.name))).execute(changes)).to_pylist()
    assert len(found) == 300
    assert [row for row in found if (row["copies"], row["updates"], row["rows"]) != (1, row["n"], row["n"] + 1)] == []


def test_stopped_tables_keep_none_from_being_copied_anew_while_nobody_follows(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    other = TableName("public", "searches")
    pipeline.opened().lake_follower.tables.stop({THINGS: "a test", other: "a test"})
    pipeline.run("UPDATE things SET n = n + 1")
    assert rows_of(rebuilder(pipeline, spark, str(THINGS)).run()) == {THINGS}
    assert [stop.name for stop in pipeline.opened().lake_follower.tables.stops()] == [other]
    assert not describe_rebuilds(pipeline.opened())
    rebuilder(pipeline, spark, str(other)).run()
    check_equal(pipeline, spark)


@pytest.mark.parametrize(
    ("what", "by", "kind", "told"),
    [
        ("search", From.SOURCE, RefusedError, "it follows the lake, not the source"),
        ("latest", From.LOG, RefusedError, "no log holds all of it"),
        ("lake", From.LAKE, RefusedError, "no copy of itself"),
        ("shop.sums", From.LOG, RefusedError, "no log holds all of it"),
        ("nothing", None, ConfigurationError, "there is no follower, table or view nothing"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    pipeline: Pipeline, spark: SparkSession, what: str, by: From | None, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        rebuilder(pipeline, spark, what, by=by).run()
