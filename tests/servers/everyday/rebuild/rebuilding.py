"""A pipeline that is rebuilt, what its readers find, and where a rebuild of it is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from pyspark.sql import SparkSession

from cdc.core.table import TableName
from cdc.progress import Silent
from cdc.run.rebuild.rebuild import AskedRebuild, Rebuilder
from cdc.run.rebuild.work import From, RebuildResult, Work
from cdc.sinks.owner import Owner
from cdc.sinks.search.generations import Generations
from cdc.sinks.search.settings import SearchSettings
from tests.support.beside import repeated
from tests.support.cdc_inprocess import catch_up, verify
from tests.support.parts.pipelines import Pipeline

THINGS, SUMS, OVER = TableName("public", "things"), TableName("shop", "sums"), TableName("shop", "over")
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
  shop.over:
    key: [of]
    sql: SELECT of, n FROM shop.sums
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


def kill_at(step: str) -> Callable[..., None]:
    begin = Work.begin

    def begin_or_die(work: Work, at: str, of: int = 0) -> None:
        begin(work, at, of)
        if at.startswith(step):
            raise Killed

    return begin_or_die
