"""One question asked of a database and of what is derived from it: the revenue of each country on one day."""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from opensearchpy import OpenSearch

from cdc.config.settings import PipelineSettings
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.read.cuts import LakeCut, find_cut
from cdc.sinks.opensearch.layout import index_name

ORDERS: Final = TableName("public", "orders")
REVENUE: Final = TableName("shop", "revenue")
TABLE: Final = "CREATE TABLE orders (number bigserial PRIMARY KEY, day int, country text, cents bigint)"
VIEWS: Final = """views:
  shop.revenue:
    key: [day, country]
    sql: SELECT day, country, sum(cents) AS cents FROM public.orders GROUP BY day, country
"""
_QUESTION: Final = "SELECT country, CAST(sum(cents) AS bigint) FROM orders WHERE day = {day} GROUP BY country"

Revenue = Mapping[str, int]
"""Cents by country."""


class Answers:
    """Asks each store for a day."""

    def __init__(self, settings: PipelineSettings, session: "psycopg.Connection[Any]", client: OpenSearch) -> None:
        self.settings, self._session, self._client = settings, session, client

    def ask_postgres(self, day: int) -> Revenue:
        """Ask the source, as it is now."""
        return dict(self._session.execute(_QUESTION.format(day=day).encode()).fetchall())

    def ask_lake(self, day: int, cut: LakeCut | None = None) -> Revenue:
        """Ask the table of the lake, at a cut or at the newest."""
        found = cut or find_cut(Pipeline(self.settings), [str(ORDERS)])
        return _ask_delta(found, ORDERS, day)

    def ask_view(self, day: int, cut: LakeCut | None = None) -> Revenue:
        """Ask the view, at a cut or at its newest."""
        found = cut or find_cut(Pipeline(self.settings), [str(REVENUE)])
        return _ask_delta(found, REVENUE, day)

    def ask_index(self, day: int) -> Revenue:
        """Ask the index, as it is searched now."""
        by_country = {"terms": {"field": "country.keyword", "size": 99}, "aggs": {"cents": {"sum": {"field": "cents"}}}}
        body = {"size": 0, "query": {"term": {"day": day}}, "aggs": {"countries": by_country}}
        found = self._client.search(index=index_name(self.settings.pipeline.name, ORDERS), body=body)
        buckets = found["aggregations"]["countries"]["buckets"]
        return {bucket["key"]: int(bucket["cents"]["value"]) for bucket in buckets}

    def differs_at_one_cut(self, day: int) -> bool:
        """Whether the table of the lake and the view answer differently, both as they are at the newest cut of both."""
        cut = find_cut(Pipeline(self.settings), [str(ORDERS), str(REVENUE)])
        return self.ask_lake(day, cut) != self.ask_view(day, cut)


def _ask_delta(cut: LakeCut, name: TableName, day: int) -> Revenue:
    table = cut.tables[str(name)]
    # the view has the sums already: one row a country
    query = QueryBuilder().register("orders", DeltaTable(table.path, version=table.version))
    found = pa.table(query.execute(_QUESTION.format(day=day)).read_all())
    countries, cents = (column.to_pylist() for column in found.columns)
    return dict(zip(countries, cents, strict=True))
