"""A pipeline that has every feature, and what is asked of each of them after something has happened to it."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession

import cdc
from cdc.config.settings import VIEWS
from cdc.core.position import parse_lsn
from cdc.run.verify.chains import check_chains
from tests.support.cdc_inprocess import bootstrap, following, problems, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.parts.pipelines import MakePipeline, Pipeline

ORDERS, EVENTS, SEARCHES = "public.orders", "public.events", "public.saved_searches"
SCHEMA = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, n int, note text, kind text, at date DEFAULT now())",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE events (id int PRIMARY KEY, page text, at timestamptz, kind text, size int DEFAULT 3)",
    "CREATE TABLE saved_searches (id int PRIMARY KEY, query jsonb)",
    "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(0, 9) AS n",
    "INSERT INTO orders SELECT n, n % 10, n, repeat('x', 3000), 'kind' FROM generate_series(1, 40) AS n",
    "INSERT INTO events SELECT n, 'page', now() - n * interval '1 minute' FROM generate_series(1, 20) AS n",
    """INSERT INTO saved_searches VALUES (1, '{"range": {"n": {"lt": 20}}}')""",
)
PLAIN = ("public.customers",)
"""The table that is followed from the beginning; all that is further comes later."""
FURTHER = (ORDERS, EVENTS, SEARCHES)
HISTORY = f"history: [{ORDERS}, {EVENTS}]\n"
DERIVED = """views:
  shop.card:
    key: [id]
    sql: |
      SELECT c.id, c.name, count(o.id) AS orders, sum(o.n) AS total
      FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name
  shop.minutes:
    key: [minute]
    final_after: 10 minutes
    whole_seconds: 1
    sql: |
      SELECT window.start AS minute, count(*) AS views FROM events GROUP BY window(at, '1 minute')

"""
ALERTS = """  alerts:
    kind: percolator
    url: URL
    queries: {table: public.saved_searches, column: query}
    tables: [public.orders, shop.card]
"""


def make_plain(make_pipeline: MakePipeline) -> Pipeline:
    """A pipeline of one table and two followers, in a folder whose path has a blank."""
    return make_pipeline(*SCHEMA, tables=PLAIN)


def add_everything(pipeline: Pipeline) -> None:
    """Name the further tables in the file, and all that is made of them."""
    pipeline.configure("  tables:\n", "  tables:\n" + "".join(f"    - {name}\n" for name in FURTHER))
    alerts = ALERTS.replace("URL", pipeline.servers.values.search_url)
    pipeline.configure("\nfollowers:\n", f"\n{HISTORY}{DERIVED}followers:\n{alerts}")
    pipeline.configure("    kind: search\n", f"    kind: search\n    tables: [{ORDERS}, shop.card]\n")
    pipeline.configure("    kind: latest\n", f"    kind: latest\n    tables: [{ORDERS}, shop.card]\n")


@dataclass(frozen=True)
class Column:
    """A column of a table whose key is `id`."""

    table: str
    name: str


@dataclass(slots=True)
class Everything:
    """The pipeline while tests do things to it, one after another."""

    pipeline: Pipeline
    spark: SparkSession
    scratch: Path
    without_jar: pytest.MonkeyPatch
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    customers: str = "customers"
    partitions: int = 4
    _turns: dict[str, bool] = field(default_factory=dict)

    def bootstrap(self, *again: str) -> None:
        bootstrap(self.pipeline, self.spark, *again)

    def turn(self, one: str, other: str) -> tuple[str, str]:
        """What is there and what is to come: the second of both the first time, then they take turns."""
        is_back = self._turns[one] = not self._turns.get(one, True)
        return (other, one) if is_back else (one, other)

    def rename_customers(self) -> tuple[str, str]:
        """The old and the new name of the table."""
        names = self.turn("customers", "clients")
        self.customers = names[1]
        return names

    def write(self, *, with_events: bool = True) -> None:
        """Every kind of change to each table, in transactions of several tables."""
        n = next(self.numbers)
        base, search = 1000 * n, json.dumps({"range": {"n": {"gt": n}}})
        self.pipeline.run(
            f"BEGIN; INSERT INTO orders (id, customer_id, n) SELECT {base} + g, g, g FROM generate_series(0, 9) AS g;"
            f" UPDATE {self.customers} SET name = name || '{n}' WHERE id % 3 = {n % 3}; COMMIT",
            f"UPDATE orders SET n = n + 1 WHERE id % 7 = {n % 7}",
            f"UPDATE orders SET id = id + 100000 WHERE id % 10 = 3 AND id BETWEEN {base} AND {base + 5}",
            f"UPDATE orders SET note = 'note {n}' WHERE id % 5 = {n % 5}",
            f"DELETE FROM orders WHERE id % 11 = {n % 11}",
            f"INSERT INTO saved_searches VALUES ({n + 1}, '{search}')",
        )
        if with_events:
            self.pipeline.run(
                "INSERT INTO events (id, page, at)"
                f" SELECT {base} + g, 'page', now() - g * interval '7 minutes' FROM generate_series(1, 5) AS g",
                f"DELETE FROM events WHERE id = {base} + 1",
            )

    def check(self, *, by_rows: bool = True) -> None:
        """All features show what the source has to those who ask for their own writes, and have no problem.

        `by_rows`: compare every row of every follower, view and history, too, which takes as long as all else.
        """
        with following(self.pipeline, self.spark) as running:
            running.wait_for("following")
            self.wait("lake")
            cut = cdc.cut(ORDERS, f"public.{self.customers}", config=self.pipeline.config)
            self.write()
            for follower in ("lake", VIEWS, "search", "latest", "alerts"):
                self.wait(follower)
            self._check_changes(cut, Column(ORDERS, "n"), Column(f"public.{self.customers}", "name"))
        if by_rows:
            report = verify(self.pipeline, self.spark)
            assert report.is_equal, report.as_json()
        chains = check_chains(self.pipeline.opened(self.spark))
        assert not any(verdict.broken for verdict in chains), chains
        found = problems(self.pipeline)
        assert not found, found

    def _check_changes(self, cut: cdc.LakeCut, *columns: Column) -> None:
        folders = [self.scratch / f"changes{next(self.numbers)}" for _ in columns]
        checked = partial(check_changes, self.pipeline, self.spark, cut)
        # at once: each waits for the start of a stream
        with ThreadPoolExecutor(len(columns)) as threads:
            assert [*threads.map(checked, columns, folders)] == [None] * len(columns)

    def wait(self, follower: str) -> None:
        """Return when readers of the follower see everything that is committed."""
        token = cdc.token(self.pipeline.connection)
        shown = cdc.wait(token, follower, seconds=LIMIT_SECONDS, config=self.pipeline.config)
        assert parse_lsn(shown) >= parse_lsn(token), follower


def check_changes(
    pipeline: Pipeline,
    spark: SparkSession,
    cut: cdc.LakeCut,
    of: Column,
    folder: Path,
    options: dict[str, str] | None = None,
) -> None:
    """The rows of a cut and the changes behind it are the table's rows now. `options`: of delta-rs for the lake."""
    table = cut.tables[of.table]
    query = QueryBuilder().register("t", DeltaTable(table.path, table.version, options))
    rows = pa.table(query.execute(f"SELECT id, {of.name} FROM t").read_all()).to_pylist()
    found = {row["id"]: text_of(row[of.name]) for row in rows}
    for change in run_stream(cdc.changes(spark, of.table, after=cut, config=pipeline.config), folder):
        apply_change(found, change, of.name)
    there = pipeline.connection.execute(f"SELECT id, {of.name}::text FROM {of.table}".encode()).fetchall()
    assert found == dict(there)


def run_stream(changes: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """The rows that are there now, in the order of their commits."""
    stream = changes.writeStream.format("memory").queryName(folder.name).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder)).start().awaitTermination()
    return [row.asDict() for row in changes.sparkSession.table(folder.name).orderBy("_lsn", "_number").collect()]


def apply_change(rows: dict[int, str | None], change: dict[str, Any], column: str) -> None:
    match change["_change"]:
        case "truncate":
            rows.clear()
        case "delete":
            rows.pop(change["id"], None)
        case _:
            rows[change["id"]] = text_of(change[column])


def text_of(value: object) -> str | None:
    return None if value is None else str(value)
