"""Saved searches as a user has them: rows, queries and views from Postgres, matches read from the topic."""

import json
import re
from collections.abc import Callable, Sequence

import httpx
import pytest
from pyspark.sql import SparkSession

import cdc
from cdc.__main__ import main
from tests.servers.percolator.shop import MATCHED, Listener, Writer, listening, make_shop, matching
from tests.support.cdc_inprocess import bootstrap, catch_up, following, problems, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS, started
from tests.support.examples import scaled
from tests.support.parts.pipelines import MakePipeline, Pipeline

KILLS, BURSTS = scaled(5), 2
"""Of these, one is enough usually; all are tried with `--further`."""
CHEAP, NAMED = {"range": {"price": {"lt": 5}}}, {"exists": {"field": "title"}}


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Callable[[Pipeline], None]:
    """Gives this process what a pipeline's file refers to."""

    def give(pipeline: Pipeline) -> None:
        for name, value in pipeline.environ.items():
            monkeypatch.setenv(name, value)

    return give


def settle(pipeline: Pipeline, listener: Listener, refused: Sequence[int] = ()) -> None:
    """Wait until the follower has all that is committed; what it has told then is what matches."""
    cdc.wait(cdc.token(pipeline.connection), "alerts", seconds=LIMIT_SECONDS, config=pipeline.config)
    listener.hear(matching(pipeline.connection, refused))


def write_and_kill(pipeline: Pipeline, listener: Listener, writer: Writer) -> None:
    """Follow as a process of its own, which dies while the follower has a batch in hand."""
    with started(pipeline, "follow") as running:
        for _ in range(BURSTS):
            writer.write(10)
            settle(pipeline, listener)
        writer.write(10)
        cdc.wait(cdc.token(pipeline.connection), "lake", seconds=LIMIT_SECONDS, config=pipeline.config)
        running.kill()


def test_what_matches_in_postgres_is_told_once(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    give: Callable[[Pipeline], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline = make_shop(make_pipeline)
    give(pipeline)
    writer = Writer(pipeline.connection, seed=1)
    writer.write(60)
    assert matching(pipeline.connection)
    bootstrap(pipeline, spark)
    with listening(pipeline) as listener:
        for _ in range(KILLS):
            write_and_kill(pipeline, listener, writer)
        with following(pipeline, spark):
            pipeline.run("TRUNCATE listings")
            settle(pipeline, listener)
            writer.write(20)
            settle(pipeline, listener)
        assert listener.heard > len(listener.there) > 10
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()
    assert {*map(str, report.followers["alerts"])} == {*MATCHED, "public.saved_searches"}
    assert not problems(pipeline)
    capsys.readouterr()
    assert main(["--config", str(pipeline.config), "status"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^alerts +\S+ +caught up", shown, re.MULTILINE), shown


def test_a_refused_query_is_told_and_kept_and_costs_nothing_else(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    give: Callable[[Pipeline], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline = make_shop(make_pipeline, *search(1, CHEAP), *search(2, {"term": {"colour": "red"}}), *listing(1, 3))
    give(pipeline)
    bootstrap(pipeline, spark)
    line = "alerts: public.saved_searches: the query where id = 2 is refused for rows of public.listings: "
    assert capsys.readouterr().err.count(line) == 1
    with listening(pipeline) as listener:
        with following(pipeline, spark) as running:
            # in one transaction with what has to arrive
            with pipeline.connection.transaction():
                pipeline.run(*search(3, [1]), *search(4, {"guess": {}}), *search(5, NAMED), *listing(2, 4))
            settle(pipeline, listener, refused=(3, 4))
            assert len(listener.there) > 4
            running.wait_for_each(*(f"the query where id = {number} is refused" for number in (3, 4)))
            assert read_refused(pipeline) == {2, 3, 4}
        with following(pipeline, spark) as running:
            # one that was a query ends with its matches, and one that was none begins
            pipeline.run(*search(2, NAMED), *search(1, "none"), "DELETE FROM saved_searches WHERE id = 3")
            settle(pipeline, listener, refused=(1, 4))
            running.wait_for("the query where id = 1 is refused")
            assert not [line for line in running.said if "id = 4 is refused" in line]
            assert read_refused(pipeline) == {1, 4}
    assert verify(pipeline, spark).is_equal


def search(number: int, query: object) -> tuple[str, ...]:
    """Save a query."""
    set_query = "ON CONFLICT (id) DO UPDATE SET query = excluded.query"
    return (f"INSERT INTO saved_searches VALUES ({number}, 'me', '{json.dumps(query)}') {set_query}",)


def listing(number: int, price: int) -> tuple[str, ...]:
    return (f"INSERT INTO listings VALUES ({number}, 'red boat', {price}, 'Kiel', {number})",)


def read_refused(pipeline: Pipeline) -> set[int]:
    """The queries in the index of refused ones, by id."""
    index = f"{pipeline.settings.pipeline.name}-alerts-cdc.refused-queries"
    url = f"{pipeline.servers.values.search_url}/{index}/_search"
    found = httpx.get(url, params={"size": 100}).raise_for_status().json()
    return {json.loads(hit["_source"]["query"])["id"] for hit in found["hits"]["hits"]}
