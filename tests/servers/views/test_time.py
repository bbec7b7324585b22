"""The views of cdc/views/TIME.md on real servers: what they have while rows come in time, late, and for the past."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cdc
from cdc.config.settings import VIEWS
from tests.support.cdc_inprocess import bootstrap, following, problems, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.lake.read_rows import read_rows
from tests.support.pages import read_example
from tests.support.parts.pipelines import MakePipeline, Pipeline

TABLES = ("page_views", "prices", "sales", "searches", "clicks", "readings")
SCHEMA = (
    "CREATE TABLE page_views (id int PRIMARY KEY, page text, visitor int, at timestamptz)",
    "CREATE TABLE prices (id int PRIMARY KEY, product int, price numeric(8, 2), valid_from timestamptz)",
    "CREATE TABLE sales (id int PRIMARY KEY, product int, at timestamptz)",
    "CREATE TABLE searches (id int PRIMARY KEY, at timestamptz)",
    "CREATE TABLE clicks (id int PRIMARY KEY, search_id int, at timestamptz)",
    "CREATE TABLE readings (id int PRIMARY KEY, value int, at timestamptz, sent_at timestamptz)",
    "INSERT INTO prices VALUES (1, 7, 10, now() - interval '3 hours')",
)


@dataclass(frozen=True)
class Run:
    """A pipeline with the page's views, and when it began."""

    pipeline: Pipeline
    spark: SparkSession
    now: datetime

    def ago(self, **parts: int) -> str:
        return f"'{(self.now - timedelta(**parts)).isoformat()}'"

    def minute(self, **parts: int) -> datetime:
        return (self.now - timedelta(**parts)).replace(second=0, microsecond=0)

    def write(self, *statements: str) -> None:
        """Commit these, and wait until the views show them."""
        self.pipeline.run(*statements)
        cdc.wait(cdc.token(self.pipeline.connection), VIEWS, seconds=LIMIT_SECONDS, config=self.pipeline.config)

    def rows(self, view: str) -> list[dict[str, Any]]:
        return read_rows(self.pipeline, view)

    def column(self, view: str, key: str, value: str) -> dict[Any, Any]:
        return {row[key]: row[value] for row in self.rows(view)}


@pytest.fixture
def run(make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    pipeline = make_pipeline(*SCHEMA, tables=tuple(f"public.{name}" for name in TABLES), lake_only=True)
    views = read_example("cdc/views/TIME.md").replace("    key: [", "    whole_seconds: 1\n    key: [")
    pipeline.configure("followers:\n", f"{views}\nfollowers:\n")
    pipeline.set_environ(monkeypatch)
    bootstrap(pipeline, spark)
    return Run(pipeline, spark, datetime.now(UTC))


def test_the_views_of_the_page_have_what_it_says(run: Run) -> None:
    with following(run.pipeline, run.spark):
        write_in_time_and_late(run)
        write_later(run)
        go_on_in_another_epoch(run)
    # what is certain now: by the cut's commit time, which heartbeats move on
    committed = cdc.cut(config=run.pipeline.config).committed_at
    assert {row["id"] for row in run.rows("ads.searches") if row["expires"] <= committed} == {1, 2}
    report = verify(run.pipeline, run.spark)
    assert report.is_equal, report.as_json()
    assert len(report.followers["views"]) == 9
    assert not problems(run.pipeline)


def write_in_time_and_late(run: Run) -> None:
    ago, began = run.ago, datetime.now(UTC)
    run.write(
        "BEGIN",
        f"INSERT INTO page_views VALUES (1, 'a', 1, {ago(minutes=2)}), (2, 'a', 1, {ago(minutes=2)}),"
        f" (3, 'b', 2, {ago(minutes=40)}), (4, 'b', 1, {ago(hours=5)})",
        f"INSERT INTO sales VALUES (1, 7, {ago(hours=1)}), (2, 8, {ago(hours=1)})",
        f"INSERT INTO searches VALUES (1, {ago(minutes=90)}), (2, {ago(minutes=90)}), (3, {ago(minutes=1)})",
        f"INSERT INTO clicks VALUES (1, 1, {ago(minutes=80)}), (2, 1, {ago(minutes=10)}), (3, 9, {ago(minutes=1)})",
        # a clock that is two hours ahead
        "INSERT INTO readings VALUES (1, 5, now() + interval '119 minutes', now() + interval '2 hours')",
        "COMMIT",
    )
    assert run.column("web.minutes", "minute", "views") == {run.minute(minutes=2): 2}
    assert {row["id"] for row in run.rows("web.minutes_late")} == {3, 4}
    assert sum(row["views"] for row in run.rows("web.busy")) == 5 * 4
    assert sorted(run.column("web.sessions", "begin", "views").values()) == [1, 1, 2]
    assert run.column("ads.searches", "id", "clicks") == {1: 1, 2: 0, 3: 0}
    assert run.column("ads.lost_clicks", "id", "search_id") == {2: 1, 3: 9}
    [reading] = run.rows("iot.readings")
    # a minute before it was written, whatever its clock says
    assert began <= reading["at"] + timedelta(minutes=1) <= datetime.now(UTC)


def write_later(run: Run) -> None:
    """A price entered late, views that move from a closed minute to an open one, a click of an hour ago."""
    ago = run.ago
    run.write(
        "BEGIN",
        f"INSERT INTO prices VALUES (2, 7, 12, {ago(hours=2)}), (3, 8, 3, {ago(hours=2)})",
        f"UPDATE page_views SET at = {ago(minutes=3)} WHERE id IN (1, 4)",
        "DELETE FROM page_views WHERE id = 3",
        f"INSERT INTO clicks VALUES (4, 2, {ago(minutes=60)})",
        "COMMIT",
    )
    assert run.column("web.minutes", "minute", "views") == {run.minute(minutes=2): 1, run.minute(minutes=3): 2}
    assert {row["id"] for row in run.rows("web.minutes_late")} == {3, 4}
    assert run.column("shop.sold", "id", "price") == {1: Decimal(12), 2: Decimal(3)}
    assert run.column("shop.sold_as_known", "id", "price") == {1: Decimal(10), 2: None}
    assert run.column("ads.searches", "id", "clicks") == {1: 1, 2: 1, 3: 0}


def go_on_in_another_epoch(run: Run) -> None:
    """The history goes on in a second table: what came too late for a window stays so, though it is copied again."""
    ago = run.ago
    run.write(f"INSERT INTO page_views VALUES (7, 'late', 1, {ago(hours=5)})")
    run.write(
        "ALTER TABLE page_views ALTER visitor TYPE bigint",
        f"INSERT INTO page_views VALUES (6, 'in time', 1, {ago(minutes=2)})",
    )
    epochs = [name for name in cdc.cut(config=run.pipeline.config).tables if "page_views_history" in str(name)]
    assert len(epochs) == 2
    assert run.column("web.minutes", "minute", "views") == {run.minute(minutes=2): 2, run.minute(minutes=3): 2}
    run.write(
        f"INSERT INTO page_views VALUES (5, 'later', 1, {ago(hours=5)})", "DELETE FROM page_views WHERE id IN (2, 7)"
    )
    assert {row["id"] for row in run.rows("web.minutes_late")} == {3, 4, 5, 7}
    assert run.column("web.minutes", "minute", "views") == {run.minute(minutes=2): 1, run.minute(minutes=3): 2}
