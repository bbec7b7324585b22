"""Three read models of the same log of orders, each good at one question, and what keeps each of them up."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, Protocol

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from cdc.lab.messages import find_partitions, take

_ORDERS: Final = "CREATE TABLE orders (number int PRIMARY KEY, country text, cents bigint, revenue bigint, note text)"
_INSERT: Final = "INSERT INTO orders VALUES (%(number)s, %(country)s, %(cents)s, %(revenue)s, %(note)s)"
_REVENUE: Final = "SELECT sum(cents) FROM read_parquet(?) WHERE country = ?"
_SCHEMA: Final = pa.schema(
    {"number": pa.int32(), "country": pa.string(), "cents": pa.int64(), "revenue": pa.int64(), "note": pa.string()}
)


@dataclass(frozen=True, slots=True)
class NotedOrder:
    """An order with a word that no other has. `revenue`: what its country has with it."""

    number: int
    country: str
    cents: int
    revenue: int
    note: str

    def as_text(self) -> str:
        return json.dumps(asdict(self))


class ReadModel(Protocol):
    """Orders, laid out for one question."""

    name: str
    question: str

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        """Take in the next orders of the log; who asks afterwards finds them."""
        ...

    def shows(self, order: NotedOrder) -> bool:
        """Ask its question, and look whether the answer has this order, the newest of all, in it."""
        ...

    def add_up(self) -> int:
        """The cents of all orders."""
        ...


class OrdersTable:
    """A table of Postgres: one order by its number."""

    name = "Postgres table"
    question = "an order by its number"

    def __init__(self, writer: "psycopg.Connection[Any]", reader: "psycopg.Connection[Any]") -> None:
        self._writer, self._reader = writer, reader
        writer.execute(_ORDERS)

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        with self._writer.transaction():
            self._writer.cursor().executemany(_INSERT, [asdict(order) for order in orders])

    def shows(self, order: NotedOrder) -> bool:
        return bool(self._reader.execute("SELECT 1 FROM orders WHERE number = %s", (order.number,)).fetchall())

    def add_up(self) -> int:
        [[cents]] = self._reader.execute("SELECT sum(cents) FROM orders").fetchall()
        return int(cents)


class OrdersIndex:
    """An index of OpenSearch: orders by words of their notes."""

    name = "OpenSearch index"
    question = "orders with a word"

    def __init__(self, client: OpenSearch, index: str) -> None:
        self._client, self._index = client, index
        client.indices.create(index=index)

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        bulk(self._client, ({"_index": self._index, "_id": order.number, **asdict(order)} for order in orders))
        # only what is refreshed is found
        self._client.indices.refresh(index=self._index)

    def shows(self, order: NotedOrder) -> bool:
        return bool(self._search({"query": {"match": {"note": order.note}}})["hits"]["hits"])

    def add_up(self) -> int:
        found = self._search({"size": 0, "aggs": {"cents": {"sum": {"field": "cents"}}}})
        return int(found["aggregations"]["cents"]["value"])

    def _search(self, body: dict[str, Any]) -> Any:
        return self._client.search(index=self._index, body=body)


class OrdersFile:
    """A Parquet file that DuckDB reads: the revenue of a country."""

    name = "Parquet file"
    question = "revenue of a country"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._orders: list[NotedOrder] = []
        self._newest = self._write()

    def apply(self, orders: Sequence[NotedOrder]) -> None:
        self._orders += orders
        self._newest = self._write()

    def shows(self, order: NotedOrder) -> bool:
        found = duckdb.execute(_REVENUE, [self._newest, order.country]).fetchall()
        return bool(found[0][0] == order.revenue)

    def add_up(self) -> int:
        [[cents]] = duckdb.execute("SELECT sum(cents) FROM read_parquet(?)", [self._newest]).fetchall()
        return int(cents)

    def _write(self) -> str:
        # another file each time: whoever reads the one before has it whole
        written = str(self._folder / f"{len(self._orders)}.parquet")
        pq.write_table(pa.Table.from_pylist([asdict(order) for order in self._orders], _SCHEMA), written)
        return written


class ModelFollower(Thread):
    """Reads the log for one model, until it is stopped. `position`: the offset of the first order that is not shown.

    `batch` is held while orders are taken in; who holds it meanwhile holds up the model.
    """

    def __init__(self, model: ReadModel, consumer: Any, topic: str, stopping: Event) -> None:
        super().__init__(daemon=True)
        self.model, self.batch = model, Lock()
        self.position = 0
        self.applied: list[tuple[int, float]] = []
        self._consumer, self._stopping = consumer, stopping
        consumer.assign(find_partitions(consumer, topic))

    def has(self, offset: int) -> bool:
        """Whether the model shows what is at this offset of the log."""
        return self.position > offset

    def run(self) -> None:
        while not self._stopping.is_set():
            messages = take(self._consumer)
            with self.batch:
                if messages:
                    self.model.apply([NotedOrder(**json.loads(str(message.value))) for message in messages])
                    end = messages[-1].offset + 1
                    self.applied.append((end, time.monotonic()))
                    self.position = end
