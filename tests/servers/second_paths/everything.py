"""A pipeline that has every feature, and what is asked of each of them after something has happened to it."""

import json
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import polars
from pyspark.sql import SparkSession

import cdc
from cdc.config.settings import VIEWS
from cdc.core.position import parse_lsn
from cdc.run.verify.chains import check_chains
from tests.support.cdc_inprocess import bootstrap, following, problems, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.pipelines import MakePipeline, Pipeline

ORDERS, EVENTS, SEARCHES = "public.orders", "public.events", "public.saved_searches"
SCHEMA = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, n int, note text)",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE events (id int PRIMARY KEY, page text, at timestamptz)",
    "CREATE TABLE saved_searches (id int PRIMARY KEY, query jsonb)",
    "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(0, 9) AS n",
    "INSERT INTO orders SELECT n, n % 10, n, repeat('x', 3000) FROM generate_series(1, 40) AS n",
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
    sql: |
      SELECT window.start AS minute, count(*) AS views FROM events GROUP BY window(at, '1 minute')

"""
ALERTS = """  alerts:
    kind: percolator
    url: URL
    queries: {table: public.saved_searches, column: query}
    tables: [public.orders]
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


@dataclass(slots=True)
class Everything:
    """The pipeline while tests do things to it, one after another."""

    pipeline: Pipeline
    spark: SparkSession
    scratch: Path
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def bootstrap(self, *again: str) -> None:
        bootstrap(self.pipeline, self.spark, *again)

    def write(self) -> None:
        """Every kind of change to each table, in transactions of several tables."""
        n = next(self.numbers)
        base, search = 1000 * n, json.dumps({"range": {"n": {"gt": n}}})
        self.pipeline.run(
            f"BEGIN; INSERT INTO orders (id, customer_id, n) SELECT {base} + g, g, g FROM generate_series(0, 9) AS g;"
            f" UPDATE customers SET name = name || '{n}' WHERE id % 3 = {n % 3}; COMMIT",
            f"UPDATE orders SET n = n + 1 WHERE id % 7 = {n % 7}",
            f"UPDATE orders SET id = id + 100000 WHERE id % 10 = 3 AND id BETWEEN {base} AND {base + 5}",
            f"UPDATE orders SET note = 'note {n}' WHERE id % 5 = {n % 5}",
            f"DELETE FROM orders WHERE id % 11 = {n % 11}",
            "INSERT INTO events (id, page, at)"
            f" SELECT {base} + g, 'page', now() - g * interval '7 minutes' FROM generate_series(1, 5) AS g",
            f"DELETE FROM events WHERE id = {base} + 1",
            f"INSERT INTO saved_searches VALUES ({n + 1}, '{search}')",
        )

    def check(self) -> None:
        """All features hold what the source has, and show it to those who ask for their own writes."""
        with following(self.pipeline, self.spark) as running:
            running.wait_for("following")
            self.wait("lake")
            cut = cdc.cut(config=self.pipeline.config)
            self.write()
            for follower in ("lake", VIEWS, "search", "latest", "alerts"):
                self.wait(follower)
            self.check_changes(cut)
        report = verify(self.pipeline, self.spark)
        assert report.is_equal, report.as_json()
        assert [verdict for verdict in check_chains(self.pipeline.settings, self.spark) if verdict.broken] == []
        assert problems(self.pipeline) == []

    def wait(self, follower: str) -> None:
        """Return when readers of the follower see everything that is committed."""
        token = cdc.token(self.pipeline.connection)
        shown = cdc.wait(token, follower, seconds=LIMIT_SECONDS, config=self.pipeline.config)
        assert parse_lsn(shown) >= parse_lsn(token), follower

    def check_changes(self, cut: cdc.LakeCut) -> None:
        """The rows of a cut and the changes behind it are the table's rows now."""
        table = cut.tables[ORDERS]
        rows = polars.scan_delta(table.path, version=table.version).select("id", "n").collect()
        found = {row["id"]: str(row["n"]) for row in rows.to_dicts()}
        name = f"changes{next(self.numbers)}"
        changes = cdc.changes(self.spark, ORDERS, after=cut, config=self.pipeline.config)
        query = changes.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query.option("checkpointLocation", str(self.scratch / name)).start().awaitTermination()
        for row in self.spark.table(name).orderBy("_lsn", "_number").collect():
            apply_change(found, row.asDict())
        there = self.pipeline.connection.execute("SELECT id, n::text FROM orders").fetchall()
        assert found == dict(there)


def apply_change(rows: dict[int, str], change: dict[str, Any]) -> None:
    match change["_change"]:
        case "truncate":
            rows.clear()
        case "delete":
            rows.pop(change["id"], None)
        case _:
            rows[change["id"]] = str(change["n"])
