"""`cdc rebuild` that is killed, and the ways back, on the real parts."""

from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.run.rebuild.view import ViewRebuild
from cdc.run.rebuild.work import From, Work
from cdc.run.rebuilds import Rebuilds, Replaced, describe_rebuilds
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.opensearch.layout import KEPT
from cdc.sinks.search.generations import Generations
from tests.servers.everyday.rebuild.rebuilding import (
    SUMS,
    THINGS,
    Killed,
    check_equal,
    generations,
    index_of,
    kill_at,
    rebuilder,
    rows_of,
    written,
)
from tests.support.cdc_inprocess import following, status_of
from tests.support.further import further
from tests.support.parts.pipelines import Pipeline


def test_of_an_index_only_the_tables_asked_for_go_back(pipeline: Pipeline, spark: SparkSession) -> None:
    old = {name: index_of(pipeline, name) for name in (THINGS, SUMS)}
    rebuilder(pipeline, spark, "search").run()
    new = {name: index_of(pipeline, name) for name in old}
    with following(pipeline, spark) as running, written(pipeline):
        running.wait_for("following")
        assert rows_of(rebuilder(pipeline, spark, "search", SUMS).back_out()) == {SUMS}
        assert (index_of(pipeline, SUMS), index_of(pipeline, THINGS)) == (old[SUMS], new[THINGS])
        assert rows_of(rebuilder(pipeline, spark, "search", THINGS).back_out()) == {THINGS}
        assert index_of(pipeline, THINGS) == old[THINGS]
    check_equal(pipeline, spark)
    # the others have no way back, or nothing that is kept: that keeps the index from none
    assert rows_of(rebuilder(pipeline, spark, str(THINGS), by=From.LAKE).back_out()) == {THINGS}
    assert index_of(pipeline, THINGS) == new[THINGS]
    assert rebuilder(pipeline, spark, "search", THINGS).drop_old() == [THINGS]
    assert generations(pipeline).list_tables(KEPT) == [SUMS]
    with pytest.raises(PreconditionError, match=r"nothing is kept of public\.things .* but of shop\.sums"):
        rebuilder(pipeline, spark, "search", THINGS).back_out()
    assert rows_of(rebuilder(pipeline, spark, "search").back_out()) == {SUMS}
    assert index_of(pipeline, SUMS) == new[SUMS]
    check_equal(pipeline, spark)
    assert rebuilder(pipeline, spark, "search").drop_old() == [SUMS]


@pytest.mark.parametrize("step", ["catches up", *(further(step, step) for step in ("copies", "compares", "swaps"))])
def test_a_rebuild_that_is_killed_leaves_the_old_one_and_goes_on(
    pipeline: Pipeline, spark: SparkSession, step: str
) -> None:
    old = index_of(pipeline)
    with patch.object(Work, "begin", kill_at(step)), pytest.raises(Killed):
        rebuilder(pipeline, spark, "search", THINGS).run()
    assert index_of(pipeline) == old
    [told] = describe_rebuilds(pipeline.opened())
    assert "the rebuild of search --table public.things was cut off" in str(told)
    assert any("was cut off" in str(problem) for problem in status_of(pipeline).problems.values())
    pipeline.run("UPDATE things SET n = n + 1")
    assert rows_of(rebuilder(pipeline, spark, "search", THINGS).run()) == {THINGS}
    assert index_of(pipeline) != old
    check_equal(pipeline, spark)


@pytest.mark.parametrize("after", [1, further("before", 0)])
def test_one_that_is_killed_while_it_swaps_is_right_all_the_same(
    pipeline: Pipeline, spark: SparkSession, after: int
) -> None:
    """`after`: so many of the states are stored; the aliases change behind the first, and there is a way back then."""
    store, stored = Generations._store, list[str]()

    def store_or_die(self: Generations, client: object, generation: str, state: object) -> None:
        if len(stored) == after:
            raise Killed
        stored.append(generation)
        store(self, client, generation, state)  # type: ignore[arg-type]

    with patch.object(Generations, "_store", store_or_die), pytest.raises(Killed):
        rebuilder(pipeline, spark, "search").run()
    pipeline.run("UPDATE things SET n = n + 1")
    check_equal(pipeline, spark)
    assert rows_of(rebuilder(pipeline, spark, "search").back_out()) == ({THINGS, SUMS} if after else set())
    check_equal(pipeline, spark)


def test_a_way_back_that_is_killed_leads_back_all_the_same(pipeline: Pipeline, spark: SparkSession) -> None:
    old = index_of(pipeline)
    rebuilder(pipeline, spark, "search").run()
    rebuilt = index_of(pipeline)

    def die(work: Work, tables: object) -> float | None:
        raise Killed

    with patch.object(Work, "finish", die), pytest.raises(Killed):
        rebuilder(pipeline, spark, "search").back_out()
    assert index_of(pipeline) == old
    with pytest.raises(PreconditionError, match="the way back from the rebuild of search was cut off"):
        rebuilder(pipeline, spark, "search", THINGS).back_out()
    rebuilder(pipeline, spark, "search").back_out()
    assert index_of(pipeline) == old
    # now it is a second return, which leads forth again; and a rebuild that ends behind its swap does not swap again
    rebuilder(pipeline, spark, "search").back_out()
    assert index_of(pipeline) == rebuilt
    with patch.object(Work, "finish", die), pytest.raises(Killed):
        rebuilder(pipeline, spark, "search").run()
    newest = index_of(pipeline)
    rebuilder(pipeline, spark, "search").run()
    assert index_of(pipeline) == newest
    rebuilder(pipeline, spark, "search").back_out()
    assert index_of(pipeline) == rebuilt
    check_equal(pipeline, spark)


def test_a_view_whose_way_back_is_killed_before_its_swap_goes_back_to_the_same_rows(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    rebuilder(pipeline, spark, str(SUMS)).run()
    original = Rebuilds.of(pipeline.opened()).read("views").kept[str(SUMS)]

    def die(rebuild: ViewRebuild, cut: Cut, reached: Cut) -> None:
        raise Killed

    with patch.object(ViewRebuild, "_put_in_place", die), pytest.raises(Killed):
        rebuilder(pipeline, spark, str(SUMS)).back_out()
    put_beside, led = ViewRebuild._put_beside, list[Replaced]()

    def note(rebuild: ViewRebuild, kept: Replaced) -> None:
        led.append(kept)
        put_beside(rebuild, kept)

    with patch.object(ViewRebuild, "_put_beside", note):
        rebuilder(pipeline, spark, str(SUMS)).back_out()
    assert led[0] == original
    check_equal(pipeline, spark)
