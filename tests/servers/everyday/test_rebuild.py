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
from cdc.progress import Silent
from cdc.run.rebuild.rebuild import AskedRebuild, Rebuilder
from cdc.run.rebuild.view import ViewRebuild
from cdc.run.rebuild.work import From, RebuildResult, Work
from cdc.run.rebuilds import Rebuilds, Replaced, describe_rebuilds
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.opensearch.layout import BESIDE, KEPT
from cdc.sinks.owner import Owner
from cdc.sinks.search.generations import Generations
from cdc.sinks.search.settings import SearchSettings
from tests.support.beside import repeated
from tests.support.cdc_inprocess import catch_up, following, lend_bootstrapped, status_of, verify
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

THINGS, SUMS = TableName("public", "things"), TableName("shop", "sums")
MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, n int, of int)",
    "CREATE TABLE searches (id int PRIMARY KEY, query jsonb)",
    "INSERT INTO things SELECT i, 0, i % 7 FROM generate_series(1, 300) AS i",
    """INSERT INTO searches VALUES (7, '{"range": {"n": {"gt": 3}}}')""",
)
VIEWS = """views:
  shop.sums:
    key: [of]
    sql: SELECT of, sum(n) AS n, count(*) AS rows FROM things GROUP BY of
followers:
"""
ALERTS = """  alerts:
    kind: percolator
    url: URL
    queries: {table: public.searches, column: query}
    tables: [public.things]
"""


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    def make() -> Pipeline:
        made = make_shared_pipeline(*MADE, tables=("public.things", "public.searches"))
        alerts = ALERTS.replace("URL", made.servers.values.search_url)
        made.configure("followers:\n", f"{VIEWS}{alerts}")
        made.configure("    kind: search\n", "    kind: search\n    tables: [public.things, shop.sums]\n")
        made.configure("    kind: latest\n", "    kind: latest\n    tables: [public.things, shop.sums]\n")
        return made

    yield from lend_bootstrapped(left, spark, make)


def rebuilder(
    pipeline: Pipeline, spark: SparkSession, what: str, *tables: TableName, by: From | None = None
) -> Rebuilder:
    return Rebuilder(pipeline.opened(spark), AskedRebuild(what, tables, by), print, Silent())


def generations(pipeline: Pipeline) -> Generations:
    settings = pipeline.settings.followers["search"]
    assert isinstance(settings, SearchSettings)
    return Generations.of(settings, Owner(pipeline.settings.pipeline.name, "search"))


def index_of(pipeline: Pipeline, table: TableName = THINGS) -> str:
    """The index that a search of a table finds."""
    alias = generations(pipeline).indexes.name_of(table)
    found: dict[str, object] = httpx.get(f"{pipeline.servers.values.search_url}/_alias/{alias}").json()
    [name] = found
    return name


def read_index(pipeline: Pipeline) -> tuple[int, int]:
    """The rows of things that a search finds, and the sum of what only grows."""
    url = f"{pipeline.servers.values.search_url}/{generations(pipeline).indexes.name_of(THINGS)}/_search"
    asked = {"size": 0, "track_total_hits": True, "aggs": {"n": {"sum": {"field": "n"}}}}
    found = httpx.post(url, json=asked).raise_for_status().json()
    return found["hits"]["total"]["value"], int(found["aggregations"]["n"]["value"])


@contextmanager
def watched(read: Callable[[], tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """A reader meanwhile, who never finds fewer rows, or older ones."""
    seen = [read()]
    with repeated(lambda: seen.append(read()), 0.02):
        yield seen
    assert all(one[0] <= two[0] and one[1] <= two[1] for one, two in pairwise(seen)), seen


@contextmanager
def written(pipeline: Pipeline) -> Iterator[None]:
    """Writes meanwhile: rows come, and values grow."""

    def write() -> None:
        pipeline.run(
            "UPDATE things SET n = n + 1 WHERE id % 5 = 0",
            "INSERT INTO things SELECT max(id) + 1, 1, max(id) % 7 FROM things",
        )

    with repeated(write, 0.05):
        yield


def check_equal(pipeline: Pipeline, spark: SparkSession) -> None:
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()


def rows_of(results: list[RebuildResult]) -> set[TableName]:
    return {name for result in results for name in result.rows}


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


def kill_at(step: str) -> Callable[..., None]:
    begin = Work.begin

    def begin_or_die(work: Work, at: str, of: int = 0) -> None:
        begin(work, at, of)
        if at.startswith(step):
            raise Killed

    return begin_or_die


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
    [original] = Rebuilds.of(pipeline.opened()).read("views").kept.values()

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
    assert led == [original]
    check_equal(pipeline, spark)


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
        assert rows_of(rebuilder(pipeline, spark, str(SUMS)).run()) == {SUMS}
        running.wait_for("views: rests")
        assert rows_of(rebuilder(pipeline, spark, str(SUMS)).back_out()) == {SUMS}
    check_equal(pipeline, spark)
    spark.sql(spoil)
    with patch.object(Work, "begin", kill_at("compares")), pytest.raises(Killed):
        rebuilder(pipeline, spark, str(SUMS)).run()
    rebuilder(pipeline, spark, str(SUMS)).run()
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
