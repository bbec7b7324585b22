"""A reader of a latest topic."""

import time

from kafka import KafkaConsumer, TopicPartition

from tests.bench.goal import Failed
from tests.bench.world.jobs import Job

POLL_MS = 20


class LatestTopic:
    """Reads a topic from where it ends when this is made; close it when done."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False, group_id=None
        )
        places = [TopicPartition(topic, n) for n in self._consumer.partitions_for_topic(topic) or ()]
        self._consumer.assign(places)
        self._consumer.seek_to_end(*places)
        for place in places:
            self._consumer.position(place)

    def wait_for(self, xid: int, job: Job, limit: float) -> float:
        """When a row of this transaction was read, by the wall clock."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            job.check()
            for records in self._consumer.poll(timeout_ms=POLL_MS).values():
                if any(f'"xid":{xid}'.encode() in (record.value or b"").replace(b" ", b"") for record in records):
                    return time.time()
        raise Failed(f"the latest topic has not got a change in {limit:.0f} s")

    def close(self) -> None:
        self._consumer.close()
