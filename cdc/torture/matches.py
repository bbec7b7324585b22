"""The matches of saved searches: each told once, and at rest those that the source's rows have."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from cdc.core.errors import DivergenceError, UnreachableError
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.torture.site import TortureSite

FOLLOWER: Final = "alerts"
LIMIT_SECONDS: Final = 60.0
_EXPECTED: Final = """
WITH rows AS (
  SELECT 'public.accounts' AS name, id, balance FROM accounts
  UNION ALL
  SELECT 'bank.owners', o.id, sum(a.balance) FROM owners o LEFT JOIN accounts a ON a.owner = o.id GROUP BY o.id
)
SELECT s.id, r.name, r.id FROM searches s, rows r
WHERE s.query ? 'match_all' OR r.balance > (s.query -> 'range' -> 'balance' ->> 'gt')::bigint
"""
Match = tuple[int, str, int]
"""The key of a search, a table or view, and the key of its row."""


class _Key(msgspec.Struct, frozen=True):
    id: int


class Told(msgspec.Struct, frozen=True):
    """A message: a match begins, or ends."""

    kind: str
    query: _Key
    table: str
    row: _Key

    @property
    def match(self) -> Match:
        return self.query.id, self.table, self.row.id


def prove_matches(site: TortureSite) -> None:
    """Compare what was told with the source's rows, while nothing is written. Raises DivergenceError."""
    present = fold(_read(site))
    with site.connect() as session:
        expected = {(query, table, row) for query, table, row in session.execute(_EXPECTED).fetchall()}
    if missing := expected - present:
        raise DivergenceError(f"{len(missing)} matches were not told, the first is {min(missing)}")
    if extra := present - expected:
        raise DivergenceError(f"{len(extra)} matches have ended and that was not told, the first is {min(extra)}")


def fold(messages: Iterable[Told]) -> set[Match]:
    """The matches that there are after all messages, which come in order. Raises DivergenceError for one told twice."""
    present = set[Match]()
    for told in messages:
        if (told.kind == "match") == (told.match in present):
            raise DivergenceError(f"{told.kind} of {told.match} was told twice")
        present ^= {told.match}
    return present


def _read(site: TortureSite) -> Iterator[Told]:
    """All committed messages that there are now."""
    settings = site.settings
    found = settings.followers[FOLLOWER]
    if not isinstance(found, PercolatorSettings):
        raise TypeError(found)
    topic = found.topic_names(settings.log.prefix, FOLLOWER)[0]
    client = {"bootstrap.servers": settings.log.bootstrap, "group.id": "torture", "enable.auto.commit": False}
    consumer = Consumer({**client, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        partitions = list(consumer.list_topics(topic, timeout=LIMIT_SECONDS).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        yield from _read_to_ends(consumer, len(partitions))
    finally:
        consumer.close()


def _read_to_ends(consumer: Consumer, partitions: int) -> Iterator[Told]:
    ended = set[int | None]()
    while len(ended) < partitions:
        message: KafkaMessage | None = consumer.poll(LIMIT_SECONDS)
        if message is None:
            raise UnreachableError(f"Kafka has sent nothing for {LIMIT_SECONDS:.0f} s", "run it again")
        if (error := message.error()) is None:
            yield msgspec.json.decode(message.value() or b"", type=Told)
        # the end of a partition comes as an error; others mend themselves
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
