"""Saved searches of a bench: made, matched by Postgres, by a search for each, and as our follower tells of them."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
from kafka import KafkaConsumer, TopicPartition

from tests.bench.goal import Failed
from tests.bench.world.jobs import Job
from tests.bench.world.source import Source
from tests.support.waiting import until

SEARCHES = "saved_searches"
Pairs = set[tuple[int, int]]
"""Queries and rows, by their ids."""
AT_ONCE, THREADS = 250, 2
"""Searches of one request, and requests at a time: as fast as two cores get with them."""
_TABLE = b"CREATE TABLE saved_searches (id bigint PRIMARY KEY, low integer NOT NULL, query jsonb NOT NULL)"
_QUERY = "jsonb_build_object('range', jsonb_build_object('amount', jsonb_build_object('gte', low, 'lt', low + 1)))"
_FILL = (
    f"INSERT INTO saved_searches SELECT id, low, {_QUERY}"
    " FROM (SELECT g AS id, floor(random() * 1010)::integer AS low FROM generate_series(1, %s) g) AS drawn"
)
# the same as the queries' ranges, and hashed: as ranges it takes a minute
_MATCHING = "SELECT q.id, o.id FROM saved_searches q JOIN orders o ON floor(o.amount)::integer = q.low"


def save_searches(source: Source, count: int) -> None:
    """Make the table: each query asks for amounts of one unit's width."""
    with source.connection() as connection:
        connection.execute(_TABLE)
        connection.execute(_FILL.encode(), (count,))


def in_postgres(connection: "psycopg.Connection[Any]", xid: int | None = None) -> Pairs:
    """What matches, in all rows or in those that a transaction has left."""
    chosen, values = (_MATCHING, ()) if xid is None else (f"{_MATCHING} WHERE o.xid = %s", (xid,))
    return {*connection.execute(chosen.encode(), values).fetchall()}


def by_searching(url: str, index: str, queries: Sequence[tuple[int, Any]], xid: int) -> Pairs:
    """What matches in the rows of a transaction, by one search for each query."""
    own, parts = {"term": {"xid": xid}}, range(0, len(queries), AT_ONCE)
    with httpx.Client(base_url=url, timeout=600) as client, ThreadPoolExecutor(THREADS) as threads:

        def ask(some: Sequence[tuple[int, Any]]) -> list[tuple[int, int]]:
            bodies = [
                {"query": {"bool": {"filter": [own, query]}}, "size": 10_000, "_source": False} for _, query in some
            ]
            lines = "".join(f"{{}}\n{json.dumps(body)}\n" for body in bodies)
            headers = {"Content-Type": "application/x-ndjson"}
            found = client.post(f"/{index}/_msearch", content=lines, headers=headers).raise_for_status().json()
            return [
                (number, json.loads(hit["_id"])["id"])
                for (number, _), answer in zip(some, found["responses"], strict=True)
                for hit in answer["hits"]["hits"]
            ]

        asked = threads.map(ask, [queries[at : at + AT_ONCE] for at in parts])
        return {pair for found in asked for pair in found}


class MatchTopic:
    """Reads what the follower tells, from the beginning on; close it when done."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False, group_id=None
        )
        places = [TopicPartition(topic, n) for n in self._consumer.partitions_for_topic(topic) or ()]
        self._consumer.assign(places)
        self._consumer.seek_to_beginning(*places)
        self.there: Pairs = set()

    def wait_for(self, expected: Pairs, job: Job, limit: float) -> None:
        """Return when what is there by the events is this."""

        def told() -> bool:
            for pair, begins in self._read():
                if (pair in self.there) == begins:
                    raise Failed(f"the topic tells twice of query and row {pair}")
                self.there ^= {pair}
            return self.there == expected or job.check()

        until(told, "all matches are told", limit, 0.0)

    def _read(self) -> Iterator[tuple[tuple[int, int], bool]]:
        for records in self._consumer.poll(timeout_ms=20).values():
            for record in records:
                event = json.loads(record.value)
                yield (event["query"]["id"], event["row"]["id"]), event["kind"] == "match"

    def close(self) -> None:
        self._consumer.close()
