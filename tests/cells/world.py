"""Parts of their own, and one pipeline of every feature on them, which cells do their worst to."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.config.settings import VIEWS
from cdc.local.endpoints import Service
from cdc.local.launch_context import LaunchContext
from cdc.local.servers import kafka_broker
from cdc.local.services import Home
from cdc.torture.proxy import Proxy, open_proxy
from tests.cells.quick import RETENTION_HOURS
from tests.support.parts.pipelines import Pipeline, pipelines
from tests.support.parts.ports import server_ports
from tests.support.parts.quick_spark import QUICK, QUICK_BLOCK
from tests.support.parts.removal import remove_traces
from tests.support.parts.servers_fixture import Servers, of_home, remove

LAKE_BYTES: Final = 256 * 2**20
FOLLOWERS: Final = ("lake", VIEWS, "search", "latest", "alerts")
SCHEMA: Final = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, n int, note text)",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)",
    "CREATE TABLE joined (id int PRIMARY KEY, what text)",
    "CREATE TABLE saved_searches (id int PRIMARY KEY, query jsonb)",
    "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(0, 9) AS n",
    "INSERT INTO orders SELECT n, n % 10, n, repeat('x', 3000) FROM generate_series(1, 100) AS n",
    "INSERT INTO accounts SELECT n, 1000 FROM generate_series(1, 20) AS n",
    "INSERT INTO joined SELECT n, 'first' FROM generate_series(1, 10) AS n",
    """INSERT INTO saved_searches VALUES (1, '{"range": {"n": {"lt": 20}}}')""",
)
BLOCKS: Final = """history: [public.orders]
views:
  shop.card:
    key: [id]
    sql: >-
      SELECT c.id, c.name, count(o.id) AS orders, sum(o.n) AS total
      FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name
  shop.money:
    key: [all_of_it]
    sql: SELECT 1 AS all_of_it, sum(balance) AS total, count(*) AS accounts FROM accounts GROUP BY 1
  shop.ranks:
    key: [id]
    whole_seconds: 1
    sql: SELECT id, rank() OVER (ORDER BY id) AS place FROM accounts

followers:
  alerts:
    kind: percolator
    url: URL
    queries: {table: public.saved_searches, column: query}
    tables: [public.orders]
"""


@dataclass
class World:
    """The parts, the proxies before them, and the present pipeline."""

    servers: Servers
    home: Home
    spark: SparkSession
    proxies: dict[str, Proxy]
    folder: Path
    pipeline: Pipeline
    numbers: int = 0
    _made: list[Pipeline] = field(default_factory=list)

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def session(self) -> "psycopg.Connection[Any]":
        """A session of its own on the pipeline's database: one that stays open would not outlive the faults."""
        return self.servers.connect(self.pipeline.settings.source.dbname)

    def run(self, *statements: str) -> None:
        """Execute statements, each a transaction."""
        with self.session() as session:
            for statement in statements:
                session.execute(statement.encode())

    def start_all(self) -> None:
        """Start what a fault left ended."""
        for part in PARTS_OF.values():
            self.servers.start(part)


def configure(pipeline: Pipeline) -> None:
    """Give a new pipeline every feature, and a large run and a short past that fit into seconds."""
    text = pipeline.config.read_text()
    text = text.replace("\nfollowers:\n", "\n" + BLOCKS.replace("URL", pipeline.servers.values.search_url), 1)
    text = text.replace(
        "    kind: delta\n",
        "    kind: delta\n    small_run_changes: 2400\n    freshness_seconds: 0\n"
        f"    retention_hours: {RETENTION_HOURS}\n",
        1,
    )
    text = text.replace(
        "    kind: search\n",
        "    kind: search\n    tables: [public.customers, public.orders, public.accounts, public.joined, shop.card]\n",
        1,
    )
    text = text.replace("  conf: {}\n", f"  conf:\n{QUICK_BLOCK}", 1)
    pipeline.config.write_text(text)


@contextmanager
def proxied_kafka(port: int, shown: int) -> Iterator[None]:
    """A Kafka that is started within the context listens on a further port, which it names as the one of its proxy."""
    plain = kafka_broker.broker_settings

    def settings(site: LaunchContext, data: Path) -> dict[str, object]:
        own = plain(site, data)
        return {
            **own,
            "listeners": f"{own['listeners']},PROXIED://127.0.0.1:{port}",
            "advertised.listeners": f"{own['advertised.listeners']},PROXIED://127.0.0.1:{shown}",
            "listener.security.protocol.map": f"{own['listener.security.protocol.map']},PROXIED:PLAINTEXT",
        }

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_broker, "broker_settings", settings)
        yield


@contextmanager
def open_parts(folder: Path) -> Iterator[tuple[Servers, Home, dict[str, Proxy]]]:
    """The parts, with a proxy before each that clients keep connections to."""
    home = Home(folder / "parts" / ".cdc")
    (port,) = server_ports(1)
    with ExitStack() as held:
        proxies = {part: held.enter_context(open_proxy()) for part in ("postgres", "kafka", "search")}
        held.enter_context(proxied_kafka(port, proxies["kafka"].port))
        held.callback(remove, home)
        servers = of_home(home)
        v = servers.values
        targets = {"postgres": v.port, "kafka": port, "search": int(v.search_url.rpartition(":")[2])}
        for part, target in targets.items():
            proxies[part].point_at(target)
        shown = replace(
            v,
            port=proxies["postgres"].port,
            bootstrap=f"127.0.0.1:{proxies['kafka'].port}",
            search_url=f"http://127.0.0.1:{proxies['search'].port}",
        )
        yield replace(servers, values=shown), home, proxies


@contextmanager
def open_session(folder: Path) -> Iterator[SparkSession]:
    from cdc.local.fetch.jars import spark_jars
    from cdc.run.spark.session import SessionOptions, build

    launch = SessionOptions("local[2]", "2g", [str(jar) for jar in spark_jars()], folder / "spark.log")
    session = build("cells", launch, QUICK)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def open_world(folder: Path) -> Iterator[tuple[World, "MakeWorld"]]:
    """A world with a pipeline that has nothing yet, and what makes another one."""
    with open_parts(folder) as (servers, home, proxies), open_session(folder) as spark:
        make = MakeWorld(servers, folder)
        world = World(servers, home, spark, proxies, folder, make())
        try:
            yield world, make
        finally:
            make.close()


class MakeWorld:
    """Makes a pipeline with every feature, and takes the one before away."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._held = ExitStack()

    def __call__(self) -> Pipeline:
        self.close()
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        self._held.callback(partial(shutil.rmtree, folder, ignore_errors=True))
        make = self._held.enter_context(pipelines(self._servers, folder, remove_traces))
        pipeline = make(*SCHEMA, tables=("public.*",), folder_name="")
        configure(pipeline)
        self._mount(pipeline.config.parent / "lake")
        os.environ.update(pipeline.environ)
        return pipeline

    def _mount(self, folder: Path) -> None:
        """Let the lake have a disk of its own, which can be full; only root can."""
        if os.geteuid() == 0:
            folder.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LAKE_BYTES}", "tmpfs", str(folder)], check=True)
            self._held.callback(subprocess.run, ["umount", "-l", str(folder)], check=False)

    def close(self) -> None:
        self._held.close()


PARTS_OF: Final = {
    "postgres": Service.POSTGRES,
    "kafka": Service.KAFKA,
    "connect": Service.CONNECT,
    "search": Service.SEARCH,
}
