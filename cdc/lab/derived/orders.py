"""Orders that are written day after day, and one question about a day: the revenue of each country.

It is asked of a database and of all that is derived from it.
"""

from collections.abc import Mapping
from random import Random
from threading import Event, Lock
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from opensearchpy import OpenSearch

from cdc.core.table import TableName
from cdc.lab.decoding import Session
from cdc.run.pipeline import Pipeline
from cdc.run.read.cuts import LakeCut, find_cut
from cdc.run.read.tokens import take_token
from cdc.sinks.opensearch.layout import index_name

COUNTRIES: Final = ("AT", "BR", "DE", "FR", "IN", "JP")
USUAL: Final = 5  # orders of a transaction
LAST: Final = 300  # orders of the last transaction of a day
PAUSE_SECONDS: Final = 0.05
ORDERS: Final = TableName("public", "orders")
REVENUE: Final = TableName("shop", "revenue")
TABLE: Final = "CREATE TABLE orders (number bigserial PRIMARY KEY, day int, country text, cents bigint)"
VIEWS: Final = """views:
  shop.revenue:
    key: [day, country]
    sql: SELECT day, country, sum(cents) AS cents FROM public.orders GROUP BY day, country
"""
_INSERT: Final = "INSERT INTO orders (day, country, cents) SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[])"
_QUESTION: Final = "SELECT country, CAST(sum(cents) AS bigint) FROM orders WHERE day = {day} GROUP BY country"

Revenue = Mapping[str, int]
"""Cents by country."""


class OrdersWriter:
    def __init__(self, session: Session, random: Random) -> None:
        self._session, self._random, self._turn = session, random, Lock()
        self.day, self.transactions = 0, 0

    def go_on(self, is_over: Event) -> None:
        """Write until all is over; a pause stands for whatever else a shop does."""
        while not is_over.wait(PAUSE_SECONDS):
            with self._turn:
                self._write(USUAL)
                self.transactions += 1

    def end_day(self) -> str:
        """Write the last transaction of the day, and begin the next day; returns the token of the end."""
        with self._turn:
            self._write(LAST)
            self.day += 1
            self.transactions = 0
            return take_token(self._session)

    def _write(self, orders: int) -> None:
        rows = [(self.day, self._random.choice(COUNTRIES), self._random.randint(100, 99_999)) for _ in range(orders)]
        self._session.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])


class Answers:
    """Asks each store for a day: as it is now, or the lake at a cut."""

    def __init__(self, pipeline: Pipeline, session: Session, client: OpenSearch) -> None:
        self.pipeline, self._session, self._client = pipeline, session, client

    def ask_postgres(self, day: int) -> Revenue:
        return dict(self._session.execute(_QUESTION.format(day=day).encode()).fetchall())

    def ask_lake(self, day: int, cut: LakeCut | None = None) -> Revenue:
        return self._ask_delta(ORDERS, day, cut)

    def ask_view(self, day: int, cut: LakeCut | None = None) -> Revenue:
        # the view has the sums already: one row a country
        return self._ask_delta(REVENUE, day, cut)

    def ask_index(self, day: int) -> Revenue:
        by_country = {"terms": {"field": "country.keyword", "size": 99}, "aggs": {"cents": {"sum": {"field": "cents"}}}}
        body = {"size": 0, "query": {"term": {"day": day}}, "aggs": {"countries": by_country}}
        found = self._client.search(index=index_name(self.pipeline.name, ORDERS), body=body)
        buckets = found["aggregations"]["countries"]["buckets"]
        return {bucket["key"]: int(bucket["cents"]["value"]) for bucket in buckets}

    def differs_at_one_cut(self, day: int) -> bool:
        """Whether the table of the lake and the view answer differently, both as they are at the newest cut of both."""
        cut = find_cut(self.pipeline, [str(ORDERS), str(REVENUE)])
        return self.ask_lake(day, cut) != self.ask_view(day, cut)

    def _ask_delta(self, name: TableName, day: int, cut: LakeCut | None) -> Revenue:
        table = (cut or find_cut(self.pipeline, [str(name)])).tables[str(name)]
        query = QueryBuilder().register("orders", DeltaTable(table.path, version=table.version))
        found = pa.table(query.execute(_QUESTION.format(day=day)).read_all())
        countries, cents = (column.to_pylist() for column in found.columns)
        return dict(zip(countries, cents, strict=True))
