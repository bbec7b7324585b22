"""A pipeline with saved searches, written to at random by SQL, and what matches in it by our own evaluator."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Message
from psycopg import Connection
from psycopg.rows import dict_row

from cdc.core.position import parse_lsn
from tests.servers.percolator.oracle import CITIES, WORDS, Query, fields, matches, random_query
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE sellers (id int PRIMARY KEY, name text, rating int)",
    "CREATE TABLE listings (id int PRIMARY KEY, title text, price int, city text, seller_id int)",
    "CREATE TABLE saved_searches (id int PRIMARY KEY, owner text, query jsonb)",
    "INSERT INTO sellers SELECT n, 'seller ' || n, n % 5 FROM generate_series(0, 9) AS n",
)
VIEWS = """views:
  shop.offers:
    key: [id]
    sql: |
      SELECT l.id, l.title, l.price, l.city, s.rating
      FROM public.listings l JOIN public.sellers s ON s.id = l.seller_id
  shop.sellers:
    key: [id]
    sql: |
      SELECT s.id, s.rating, count(l.id) AS price FROM public.sellers s
      LEFT JOIN public.listings l ON l.seller_id = s.id GROUP BY s.id, s.rating

"""
MATCHED = {
    "public.listings": "SELECT id, title, price, city FROM listings",
    "shop.offers": "SELECT l.id, title, price, city, rating FROM listings l JOIN sellers s ON s.id = seller_id",
    "shop.sellers": "SELECT s.id, rating, count(l.id)::int AS price"
    " FROM sellers s LEFT JOIN listings l ON l.seller_id = s.id GROUP BY s.id",
}
"""The tables and views that are matched, as Postgres itself reads them."""
ALERTS = f"""  alerts:
    kind: percolator
    url: URL
    queries: {{table: public.saved_searches, column: query}}
    tables: [{", ".join(MATCHED)}]
"""
Pairs = set[tuple[str, int, int]]
"""The table, and the ids of query and row."""


def make_shop(make_pipeline: MakePipeline, *statements: str) -> Pipeline:
    tables = ("public.sellers", "public.listings", "public.saved_searches")
    pipeline = make_pipeline(*SCHEMA, *statements, tables=tables, lake_only=True)
    alerts = ALERTS.replace("URL", pipeline.servers.values.search_url)
    pipeline.configure("followers:\n", VIEWS + "followers:\n" + alerts)
    return pipeline


def matching(connection: "Connection[Any]", refused: Sequence[int] = ()) -> Pairs:
    """What matches now: every query but the `refused` ones with every row, by brute force."""
    with connection.cursor(row_factory=dict_row) as cursor:
        queries = [
            each
            for each in cursor.execute("SELECT id, query FROM saved_searches WHERE query IS NOT NULL").fetchall()
            if each["id"] not in refused
        ]
        rows = {table: cursor.execute(sql.encode()).fetchall() for table, sql in MATCHED.items()}
    return {
        (table, query["id"], row["id"])
        for table, found in rows.items()
        for query in queries
        for row in found
        # a query is for the tables that have all of its fields
        if fields(query["query"]) <= row.keys() and matches(query["query"], row)
    }


class Writer:
    """Writes some transactions to rows and queries at random; the same ones with the same seed."""

    def __init__(self, connection: "Connection[Any]", seed: int) -> None:
        self._connection = connection
        self._random = random.Random(seed)

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            with self._connection.transaction(force_rollback=self._random.random() < 0.1):
                for _ in range(self._random.randint(1, 6)):
                    self._change()

    def _change(self) -> None:
        r, run = self._random, self._connection.execute
        number = r.randrange(40)
        match r.choice(["listing"] * 4 + ["delete", "move", "seller", "search", "search", "no search", "null"]):
            case "listing":
                values = (" ".join(r.choices(WORDS, k=3)), r.choice([None, *range(10)]), r.choice([None, *CITIES]))
                run(
                    "INSERT INTO listings VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET"
                    " (title, price, city, seller_id)"
                    " = (excluded.title, excluded.price, excluded.city, excluded.seller_id)",
                    (number, *values, r.randrange(12)),
                )
            case "delete":
                run("DELETE FROM listings WHERE id = %s", (number,))
            case "move":
                run(
                    "UPDATE listings SET id = id + 100 WHERE id = %s AND id + 100 NOT IN (SELECT id FROM listings)",
                    (number,),
                )
            case "seller":
                run("UPDATE sellers SET rating = %s WHERE id = %s", (r.randrange(5), r.randrange(10)))
            case "search":
                run(
                    "INSERT INTO saved_searches VALUES (%s, 'me', %s)"
                    " ON CONFLICT (id) DO UPDATE SET query = excluded.query",
                    (number // 2, json.dumps(self._query())),
                )
            case "no search":
                run("DELETE FROM saved_searches WHERE id = %s", (number // 2,))
            case "null":
                run("UPDATE saved_searches SET query = NULL, owner = 'you' WHERE id = %s", (number // 2,))

    def _query(self) -> Query:
        asked, rating = random_query(self._random), self._random.randrange(5)
        some_rating = {"range": {"rating": {"gte": rating}}}
        return self._random.choice([asked, {"bool": {"must": [asked, some_rating]}}, some_rating])


class Listener:
    """A consumer of the topic as anybody's is: in a group, of committed records, from the beginning."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._newest = dict[tuple[str, int, int], int]()
        self.there: Pairs = set()
        self.heard = 0

    def hear(self, expected: Pairs) -> None:
        """Listen until what is there by the events is this; fails when a match begins or ends twice."""

        def heard() -> bool:
            while message := self._consumer.poll(0.5):
                self._take(message)
            return self.there == expected

        until(heard, "what matches is told")

    def _take(self, message: Message) -> None:
        assert not message.error(), message.error()
        event = json.loads(message.value() or b"")
        pair, lsn = (event["table"], event["query"]["id"], event["row"]["id"]), int(parse_lsn(event["lsn"]))
        assert (pair in self.there) == (event["kind"] == "end of match"), event
        assert lsn > self._newest.get(pair, 0), event
        self.there ^= {pair}
        self._newest[pair] = lsn
        self.heard += 1


@contextmanager
def listening(pipeline: Pipeline) -> Iterator[Listener]:
    """Listen to the topic of the follower `alerts`."""
    settings = pipeline.settings.log
    group = {"group.id": f"{settings.prefix}-reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": settings.bootstrap, "isolation.level": "read_committed", **group})
    consumer.subscribe([f"{settings.prefix}.alerts-matches"])
    try:
        yield Listener(consumer)
    finally:
        consumer.close()
