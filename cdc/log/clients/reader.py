"""Single reads of a topic: where it begins and ends, and what lies between two offsets."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from cdc.core.errors import UnreachableError
from cdc.log.clients.connection import STALL_SECONDS, client_options, reported
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class Record:
    """One message: where it lies, and its bytes; a null value is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Reader:
    """Reads records of partitions that it is told, `committed` ones only; belongs to no group, commits nothing."""

    def __init__(self, log: LogSettings, *, committed: bool = True) -> None:
        self._log = log
        with reported(log):
            self._consumer = KafkaConsumer(
                **client_options(log),
                isolation_level="read_committed" if committed else "read_uncommitted",
                enable_auto_commit=False,
                group_id=None,
                auto_offset_reset="none",
            )

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, none when there is no such topic."""
        with reported(self._log):
            return sorted(self._consumer.partitions_for_topic(topic) or ())

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The first offset that is still there, per topic and partition."""
        return self._bounds(topics, self._consumer.beginning_offsets)

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The offset behind the last record that this reader may see, per topic and partition."""
        return self._bounds(topics, self._consumer.end_offsets)

    def _bounds(self, topics: Sequence[str], ask: Any) -> dict[str, dict[int, int]]:
        places = [TopicPartition(topic, p) for topic in topics for p in self.partitions(topic)]
        bounds: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        with reported(self._log):
            for place, offset in (ask(places) if places else {}).items():
                bounds[place.topic][place.partition] = offset
        return bounds

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Committed records with start ≤ offset < end, in order; offsets have gaps (transaction markers).

        Raises UnreachableError when nothing comes for STALL_SECONDS: the consumer itself waits for ever.
        """
        place = TopicPartition(topic, partition)
        if start >= end:
            return
        with reported(self._log):
            self._consumer.assign([place])
            self._consumer.seek(place, start)
            reached, moved = start, time.monotonic()
            while (at := self._consumer.position(place)) < end:
                if at > reached:
                    reached, moved = at, time.monotonic()
                if time.monotonic() - moved > STALL_SECONDS:
                    raise UnreachableError(f"{topic} stands still at {at} of {end}", "is every broker running?")
                for message in self._consumer.poll(timeout_ms=1000, max_records=5000).get(place, []):
                    if message.offset >= end:
                        return
                    yield Record(topic, partition, message.offset, message.key, message.value)
