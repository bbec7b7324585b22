"""Three read models of the same log of orders, each laid out for one question.

`apply` takes in the next orders of the log: who asks afterwards finds them. `shows` asks the question, and looks for
this order, the newest of all, in the answer. `add_up` are the cents of all orders.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from cdc.lab.decoding import Session

_SCHEMA: Final = pa.schema(
    {"number": pa.int32(), "country": pa.string(), "cents": pa.int64(), "revenue": pa.int64(), "note": pa.string()}
)


@dataclass(frozen=True, slots=True)
class NotedOrder:
    """An order with a word that no other has. `revenue`: the sum of its country with it."""

    number: int
    country: str
    cents: int
    revenue: int
    note: str


class OrdersTable:
    name = "Postgres table"
    question = "an order by its number"

    def __init__(self, writer: Session, reader: Session) -> None:
        self._writer, self._reader = writer, reader
        writer.execute(
            "CREATE TABLE orders (number int PRIMARY KEY, country text, cents bigint, revenue bigint, note text)"
        )

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        insert = "INSERT INTO orders VALUES (%(number)s, %(country)s, %(cents)s, %(revenue)s, %(note)s)"
        with self._writer.transaction():
            self._writer.cursor().executemany(insert, [asdict(order) for order in orders])

    def shows(self, order: NotedOrder) -> bool:
        return bool(self._reader.execute("SELECT 1 FROM orders WHERE number = %s", (order.number,)).fetchall())

    def add_up(self) -> int:
        [[cents]] = self._reader.execute("SELECT sum(cents) FROM orders").fetchall()
        return int(cents)


class OrdersIndex:
    name = "OpenSearch index"
    question = "orders with a word"

    def __init__(self, client: OpenSearch, index: str) -> None:
        self._client, self._index = client, index
        client.indices.create(index=index)

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        documents = ({"_index": self._index, "_id": order.number, **asdict(order)} for order in orders)
        # only refreshed documents are found
        bulk(self._client, documents, refresh=True)

    def shows(self, order: NotedOrder) -> bool:
        return bool(self._search({"query": {"match": {"note": order.note}}})["hits"]["hits"])

    def add_up(self) -> int:
        found = self._search({"size": 0, "aggs": {"cents": {"sum": {"field": "cents"}}}})
        return int(found["aggregations"]["cents"]["value"])

    def _search(self, body: dict[str, Any]) -> Any:
        return self._client.search(index=self._index, body=body)


class OrdersFile:
    name = "Parquet file"
    question = "revenue of a country"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._orders: list[NotedOrder] = []
        self.apply([])

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        self._orders += orders
        # another file each time: whoever reads the one before has it whole
        written = str(self._folder / f"{len(self._orders)}.parquet")
        pq.write_table(pa.Table.from_pylist([asdict(order) for order in self._orders], _SCHEMA), written)
        self._newest = written

    def shows(self, order: NotedOrder) -> bool:
        query = "SELECT sum(cents) FROM read_parquet(?) WHERE country = ?"
        return bool(duckdb.execute(query, [self._newest, order.country]).fetchall()[0][0] == order.revenue)

    def add_up(self) -> int:
        [[cents]] = duckdb.execute("SELECT sum(cents) FROM read_parquet(?)", [self._newest]).fetchall()
        return int(cents)


ReadModel = OrdersTable | OrdersIndex | OrdersFile
