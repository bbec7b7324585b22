"""The leader of the hour and its pipeline: a shop with views, histories, an index, and saved searches."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

import psycopg

from tests.bench.goal import Failed
from tests.bench.meter.meter import Meter
from tests.bench.world.parts import Parts
from tests.bench.world.pipeline import LAKE, Pipeline, configured
from tests.bench.world.source import SLICE

NAME: Final = "hour"
TABLES: Final = ("customers", "orders", "saved_searches")
SEARCH, ALERTS = "search", "alerts"
WRITERS: Final = 4
SLICE_SECONDS: Final = 10.0
"""How long one call of the procedure writes: what a crash of Postgres ends goes on with the next."""
AGAIN_SECONDS: Final = 0.5
SEARCHES: Final = 200
CUSTOMERS_SHARE: Final = 50
"""Orders a customer."""
_OVER_ORDERS: Final = "FROM public.orders o GROUP BY o.customer_id"
_VIEWS: Final[Mapping[str, tuple[str, str]]] = {
    "shop.spent": (f"SELECT o.customer_id, count(*) AS orders, sum(o.total) AS spent {_OVER_ORDERS}", "customer_id"),
    "shop.card": (
        "SELECT c.id, c.name, count(o.id) AS orders, sum(o.total) AS spent FROM public.customers c"
        " LEFT JOIN public.orders o ON o.customer_id = c.id GROUP BY c.id, c.name",
        "id",
    ),
    "shop.large": (
        "SELECT o.id, o.total, c.name FROM public.orders o JOIN public.customers c ON c.id = o.customer_id"
        " WHERE o.total > 900",
        "id",
    ),
}


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: `rate` transactions a second, until there are about `rows` orders after `seconds`."""

    rate: float
    seconds: float
    rows: int
    first_rows: int

    @property
    def customers(self) -> int:
        return max(self.first_rows // CUSTOMERS_SHARE, 100)

    @property
    def inserts(self) -> float:
        """The share of transactions that insert an order; a twentieth more than stay, since so many are deleted."""
        return min(max((self.rows - self.first_rows) / (self.rate * self.seconds), 0.0) + 0.05, 0.9)


def make_shop(parts: Parts, load: Load) -> None:
    """Make the database, with the rows that it begins with."""
    parts.make_database(NAME)
    with parts.connection(NAME) as connection:
        connection.execute(Path(__file__).with_name("shop.sql").read_bytes())
        fill = "INSERT INTO customers SELECT g, md5(g::text), g %% 20 FROM generate_series(1, %s) g"
        connection.execute(fill, (load.customers,))
        for first in range(1, load.first_rows + 1, SLICE):
            last = min(first + SLICE - 1, load.first_rows)
            connection.execute("CALL hour_fill(%s, %s, %s)", (first, last, load.customers))
        connection.execute("SELECT setval('hour_ids', %s)", (load.first_rows,))
        connection.execute("INSERT INTO hour_progress SELECT g, 0 FROM generate_series(1, %s) g", (WRITERS,))
        saved = (
            "INSERT INTO saved_searches SELECT g, jsonb_build_object('range', jsonb_build_object('total',"
            " jsonb_build_object('gte', 5 * g, 'lt', 5 * g + 1))) FROM generate_series(1, %s) g"
        )
        connection.execute(saved, (SEARCHES,))
        connection.execute("VACUUM ANALYZE")


def make_pipeline(parts: Parts, meter: Meter, retention_hours: float) -> Pipeline:
    """The pipeline, configured and not bootstrapped yet."""
    alerts = {
        "kind": "percolator",
        "url": parts.search,
        "queries": {"table": "public.saved_searches", "column": "query"},
        "tables": ["public.orders"],
    }
    settings: dict[str, Any] = {
        "followers": {LAKE: {"retention_hours": retention_hours}, ALERTS: alerts},
        "history": ["public.orders", "public.customers"],
        "views": {name: {"key": [key], "sql": text} for name, (text, key) in _VIEWS.items()},
    }
    pipeline = Pipeline(meter, parts, NAME, NAME, TABLES)
    return configured(pipeline, (LAKE, SEARCH), settings)


@contextmanager
def writing(parts: Parts, load: Load) -> Iterator[None]:
    """Writers that wait for nobody but Postgres, until the context ends. Raises Failed then for one that has ended."""
    ended = Event()

    def write(writer: int) -> None:
        while not ended.is_set():
            try:
                with parts.connection(NAME) as connection:
                    while not ended.is_set():
                        values = (writer, load.rate / WRITERS, SLICE_SECONDS, load.inserts, load.customers)
                        connection.execute("CALL hour_pace(%s, %s, %s, %s, %s)", values)
            except psycopg.OperationalError:
                # it is killed now and then
                time.sleep(AGAIN_SECONDS)

    with ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(write, writer + 1) for writer in range(WRITERS)]
        try:
            yield
        finally:
            ended.set()
            if errors := [error for each in running if (error := each.exception())]:
                raise Failed(f"a writer ended: {errors[0]}")


def count_commits(connection: "psycopg.Connection[Any]") -> int:
    """How many transactions the writers have committed."""
    row = connection.execute("SELECT sum(commits)::bigint FROM hour_progress").fetchone()
    assert row is not None
    return int(row[0])
