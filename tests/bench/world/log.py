"""The transaction topic, read beside the sides: when the log had a transaction, and where it ends."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tests.bench.goal import Failed
from tests.bench.world.ledger import Commit

POLL_MS = 20
TAIL = 100
"""Messages before the end that are enough to find the last transaction in, control records included."""


@dataclass(frozen=True, slots=True)
class End:
    """A transaction as the log has it: its end in the source's log, and when the broker had its END."""

    xid: int
    lsn: int
    appended: float

    @property
    def commit(self) -> Commit:
        """As a sight looks for it."""
        return Commit(self.xid, self.lsn, self.appended)


class TransactionLog:
    """What `transactions` gives: reads on from where the topic ended then."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._place = TopicPartition(topic, 0)
        self._ends: dict[int, End] = {}
        consumer.assign([self._place])
        consumer.seek_to_end(self._place)
        consumer.position(self._place)

    def wait_for(self, xid: int, limit: float, *, skip: bool = False) -> End:
        """Return the END of a transaction when the log has it; `skip` what is far from the topic's end."""
        deadline = time.monotonic() + limit
        while xid not in self._ends and time.monotonic() < deadline:
            if skip:
                self._near_end()
            self._poll()
        if xid in self._ends:
            return self._ends[xid]
        raise Failed(f"the log has not got a transaction in {limit:.0f} s: is the connector running?")

    def first_after(self, offset: int, limit: float) -> float:
        """When the broker had the first message at or behind an offset."""
        self._consumer.seek(self._place, offset)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if records := self._poll():
                return float(records[0].timestamp) / 1000
        raise Failed("the log has no message behind that offset")

    def end(self) -> int:
        """The offset behind the topic's last message now."""
        return int(self._consumer.end_offsets([self._place])[self._place])

    def _near_end(self) -> None:
        near = self.end() - TAIL
        if self._consumer.position(self._place) < near:
            self._consumer.seek(self._place, near)

    def _poll(self) -> list[Any]:
        """The next messages; their ENDs are remembered, since the place may move back and forth."""
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        found = [record for records in polled.values() for record in records]
        ends = (end_of(record.timestamp, record.value) for record in found)
        self._ends |= {end.xid: end for end in ends if end}
        return found


def end_of(timestamp_ms: int, value: bytes | None) -> End | None:
    """Read a message of the transaction topic; None for what is no END."""
    message = json.loads(value or b"{}")
    if message.get("status") != "END":
        return None
    xid, _, lsn = message["id"].partition(":")
    return End(int(xid), int(lsn), timestamp_ms / 1000)


@contextmanager
def transactions(bootstrap: str, topic: str) -> Iterator[TransactionLog]:
    """Read a pipeline's transaction topic from its end on."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False, group_id=None
    )
    try:
        yield TransactionLog(consumer, topic)
    finally:
        consumer.close()


Offsets = Mapping[str, Mapping[str, int]]
"""By topic and partition, as Spark's Kafka source takes them."""


def end_offsets(bootstrap: str, topics: Sequence[str]) -> Offsets:
    """Where each partition of the topics ends now."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", group_id=None)
    try:
        places = [TopicPartition(topic, n) for topic in topics for n in consumer.partitions_for_topic(topic) or ()]
        found = consumer.end_offsets(places)
    finally:
        consumer.close()
    offsets: dict[str, dict[str, int]] = {}
    for place in places:
        offsets.setdefault(place.topic, {})[str(place.partition)] = found[place]
    return offsets
