"""`cdc repair` on the real parts: each kind of follower, and views, spoilt behind their back, with a follow or not."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.core.errors import ConfigurationError, DivergenceError, PausedError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.verify.chains import check_chains
from tests.support.beside import repeated
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend_session, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.spoil import Spoil, spoil_index, spoil_lake, spoil_latest, spoil_view

FOLLOWERS = ("lake", "search", "latest", "alerts")
PEOPLE, CODES, TOTALS = TableName("public", "people"), TableName("public", "codes"), TableName("shop", "totals")
MADE = (
    "CREATE TABLE people (id int, part text, seen int, note text, PRIMARY KEY (id, part))",
    "CREATE TABLE searches (id int PRIMARY KEY, query jsonb)",
    "CREATE TABLE codes (code varchar(3) PRIMARY KEY, n int)",
    "INSERT INTO codes VALUES ('abc', 1)",
    "INSERT INTO people SELECT n, 'p' || n % 7, n, 'x' FROM generate_series(1, 400) n",
    """INSERT INTO searches VALUES (7, '{"range": {"seen": {"lt": 100}}}')""",
)
FURTHER = """history: [public.people]
views:
  shop.totals:
    key: [part]
    sql: SELECT part, count(*) AS n, sum(seen) AS seen FROM public.people GROUP BY part
  shop.all:
    key: [one]
    whole_seconds: 1
    sql: SELECT 1 AS one, count(*) AS n FROM public.people

followers:
  alerts:
    kind: percolator
    url: URL
    queries: {table: public.searches, column: query}
    tables: [public.people]
"""


@pytest.fixture(scope="module")
def pipeline(make_shared_pipeline: MakePipeline, spark: SparkSession) -> Pipeline:
    made = make_shared_pipeline(*MADE, tables=("public.people", "public.searches", "public.codes"))
    made.configure("followers:\n", FURTHER.replace("URL", made.servers.values.search_url))
    made.configure("kind: search\n", "kind: search\n    tables: [public.people, public.searches, shop.totals]\n")
    bootstrap(made, spark)
    catch_up(made, spark)
    return made


@pytest.fixture
def verbs(pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.set_environ(monkeypatch)
    lend_session(spark, monkeypatch)


def cdc(pipeline: Pipeline, *words: str) -> int:
    return main(["--config", str(pipeline.config), *words])


def row(number: int, seen: int) -> dict[str, Any]:
    return {"id": number, "part": f"p{number % 7}", "seen": seen, "note": "spoilt"}


def key(number: int) -> dict[str, Any]:
    return {"id": number, "part": f"p{number % 7}"}


def spoil_people(first: int) -> Spoil:
    """Two rows from `first` on are changed, two taken away, and two that no source has are added."""
    put = [row(first, -1), row(first + 1, -2), row(first + 1000, 5), row(first + 1001, 5)]
    return Spoil(put, [key(first + 2), key(first + 3)])


def spoil_all(pipeline: Pipeline, first: int) -> None:
    """Other rows in each follower, and rows of the views."""
    people, opened = table_of(pipeline, PEOPLE), pipeline.opened()
    spoil_lake(opened, PEOPLE, spoil_people(first))
    spoil_index(opened, "search", people, spoil_people(first + 10))
    spoil_latest(opened, people, spoil_people(first + 20))
    spoil_index(opened, "alerts", people, spoil_people(first + 30))
    spoil_view(opened, TOTALS, Spoil([{"part": "p1", "n": 0, "seen": 0}, {"part": "q", "n": 1}], [{"part": "p2"}]))
    spoil_view(opened, TableName("shop", "all"), Spoil([{"one": 1, "n": 0}], []))
    totals = Table(TOTALS, *shape_of_view(pipeline))
    spoil_index(opened, "search", totals, Spoil([{"part": "p3", "n": 9, "seen": 9}], [{"part": "p4"}]))


def table_of(pipeline: Pipeline, name: TableName) -> Table:
    found = pipeline.opened().lake_follower.tables.find(name)
    assert found is not None
    return found.table


def shape_of_view(pipeline: Pipeline) -> tuple[Any, Any]:
    [view] = [view for view in pipeline.settings.view_definitions if view.name == TOTALS]
    found = pipeline.opened().views.find(view)
    assert found is not None
    return found.table.columns, found.table.key


def check_equal(pipeline: Pipeline, spark: SparkSession) -> None:
    found = verify(pipeline, spark).as_json()
    verdicts = [(name, table, each) for name, tables in found["followers"].items() for table, each in tables.items()]
    assert [each for each in verdicts if each[2]["verdict"] != "equal"] == []
    assert found["equal"], (found["stopped"], found["incomparable"])
    assert all(each.is_whole for each in check_chains(pipeline.opened()))


def test_without_a_follow_all_is_put_right(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = count_versions(pipeline, spark)
    spoil_all(pipeline, 10)
    assert cdc(pipeline, "verify", "--json") == DivergenceError.exit_code
    told = capsys.readouterr()
    assert "cdc repair" in told.err
    found = json.loads(told.out)["followers"]
    assert {name: found[name][str(PEOPLE)]["verdict"] for name in FOLLOWERS} == dict.fromkeys(FOLLOWERS, "different")
    assert cdc(pipeline, "repair", "--json") == 0, capsys.readouterr()
    answer = json.loads(capsys.readouterr().out)
    assert answer["equal"]
    assert answer["tables"]["public.people"]["keys"] >= 24
    # others of it were computed anew when the table's rows came
    assert answer["tables"]["shop.totals"]["keys"] >= 1
    check_equal(pipeline, spark)
    # a repair is no change that the source ever had
    assert count_versions(pipeline, spark) == before


def count_versions(pipeline: Pipeline, spark: SparkSession) -> int:
    name = TableName("public", "people_history")
    feed = pipeline.opened(spark).open_whole_feed()
    return feed.row_count(name, feed.last_cut())


@contextmanager
def writing(pipeline: Pipeline) -> Iterator[None]:
    """Rows that are repaired, and others, change meanwhile."""
    numbers = count(1)
    write = "UPDATE people SET seen = seen + 1 WHERE id = %s"
    with (
        pipeline.servers.connect(pipeline.settings.source.dbname) as own,
        repeated(lambda: own.execute(write, [100 + next(numbers) % 100]), 0.1),
    ):
        yield


def test_beside_a_follow_and_writers_all_is_put_right(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with following(pipeline, spark) as running:
        running.wait_for_each("following: ")
        spoil_all(pipeline, 100)
        with writing(pipeline):
            assert cdc(pipeline, "repair", "--json") == 0, capsys.readouterr()
        assert read(capsys)["equal"]
        spoil_latest(pipeline.opened(), table_of(pipeline, PEOPLE), spoil_people(240))
        people = ("repair", "--table", str(PEOPLE), "--json")
        assert cdc(pipeline, *people, "--most", "5") == PreconditionError.exit_code
        assert "cdc bootstrap --again public.people" in capsys.readouterr().err
        assert cdc(pipeline, *people) == 0
        assert read(capsys)["tables"]["public.people"]["keys"] == 6
        # one row, by its key, and nothing else
        spoil_index(pipeline.opened(), "search", table_of(pipeline, PEOPLE), Spoil([row(300, 1)], []))
        assert cdc(pipeline, *people, "--key", '[300, "p6"]') == 0
        assert read(capsys)["tables"]["public.people"]["keys"] == 1
    catch_up(pipeline, spark)
    check_equal(pipeline, spark)


def read(capsys: pytest.CaptureFixture[str]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_odd_keys_and_a_paused_follower_are_refused_at_once(
    pipeline: Pipeline, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    people = ("repair", "--table", str(PEOPLE))
    assert cdc(pipeline, "repair", "--key", "5") == ConfigurationError.exit_code
    assert cdc(pipeline, *people, "--key", '["five", "p5"]') == ConfigurationError.exit_code
    assert cdc(pipeline, *people, "--key", "5") == ConfigurationError.exit_code
    assert cdc(pipeline, "repair", "--table", str(TOTALS), "--key", "p1") == ConfigurationError.exit_code
    pipeline.opened().requests.pause("latest", "a test")
    try:
        capsys.readouterr()
        assert cdc(pipeline, *people) == PausedError.exit_code
        assert "cdc resume latest" in capsys.readouterr().err
    finally:
        pipeline.opened().requests.resume("latest")


def test_only_who_is_asked_for_is_waited_for(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil_lake(pipeline.opened(), PEOPLE, spoil_people(30))
    pipeline.opened().requests.pause("search", "a test")
    try:
        assert cdc(pipeline, "repair", "--follower", "lake", "--json") == 0, capsys.readouterr()
    finally:
        pipeline.opened().requests.resume("search")
    told = capsys.readouterr()
    assert "not waited for: alerts, search, latest, views;" in told.err
    assert json.loads(told.out)["tables"]["public.people"]["keys"] == 6
    catch_up(pipeline, spark)
    check_equal(pipeline, spark)


def test_a_key_that_the_source_refuses_keeps_no_other_table_from_its_repair(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil_lake(pipeline.opened(), CODES, Spoil([{"code": "too long", "n": 1}], []))
    spoil_lake(pipeline.opened(), PEOPLE, spoil_people(50))
    assert cdc(pipeline, "repair", "--json") == PreconditionError.exit_code
    found = read(capsys)
    assert [*found["failed"]] == [str(CODES)]
    assert "Postgres refuses them (22001)" in found["failed"][str(CODES)]
    assert (found["tables"][str(PEOPLE)]["verdict"], str(CODES) in found["tables"]) == ("equal", False)
    assert found["tables"][str(PEOPLE)]["keys"] == 6
    bootstrap(pipeline, spark, str(CODES))
    catch_up(pipeline, spark)
    check_equal(pipeline, spark)
