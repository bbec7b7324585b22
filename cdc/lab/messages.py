"""Messages of a Kafka topic as values, read with an ordinary consumer."""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from kafka import TopicPartition

from cdc.lab.waiting import wait_for

E = TypeVar("E")
POLL_MS: Final = 50
COMPACTED: Final = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
"""Settings of a topic that is compacted whenever the broker looks."""
FILLER: Final = "filler"  # the key of a message behind all others: the broker never compacts the newest segment


@dataclass(frozen=True, slots=True)
class Message:
    """A message and its place in the log; a value of None is a tombstone.

    `timestamp_ms` is its producer's time; the broker's in a topic with `message.timestamp.type=LogAppendTime`.
    """

    partition: int
    offset: int
    key: str | None
    value: str | None
    timestamp_ms: int = 0

    def decode(self, kind: type[E]) -> E:
        """The event in its JSON. Raises msgspec.DecodeError if it is none of this kind."""
        return msgspec.json.decode(str(self.value), type=kind)


def encode(event: object) -> bytes:
    """A dataclass as JSON."""
    return msgspec.json.encode(event)


def take(consumer: Any, most: int | None = None, wait_ms: int = POLL_MS) -> list[Message]:
    """Take the messages that the broker has for this consumer, at most so many; nothing if nothing comes meanwhile."""
    polled = consumer.poll(timeout_ms=wait_ms, max_records=most)
    return [
        Message(record.partition, record.offset, _to_text(record.key), _to_text(record.value), record.timestamp)
        for records in polled.values()
        for record in records
    ]


def take_exactly(consumer: Any, number: int) -> list[Message]:
    """Wait until the broker has so many messages for this consumer; returns these."""
    found: list[Message] = []

    def has_all() -> bool:
        # of none, the broker is not asked
        if len(found) < number:
            found.extend(take(consumer, most=number - len(found)))
        return len(found) == number

    wait_for(has_all, f"{number} messages")
    return found


def read_whole(consumer: Any, topic: str, start: int | None = None) -> list[Message]:
    """Read every message that the topic holds now, each partition from its beginning, or `start`, to its end."""
    wait_for(lambda: bool(consumer.partitions_for_topic(topic)), f"the partitions of {topic}")
    places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    for place in places if start is not None else ():
        consumer.seek(place, start)
    ends = consumer.end_offsets(places)
    found: list[Message] = []

    def has_read_all() -> bool:
        found.extend(take(consumer))
        return all(consumer.position(place) >= ends[place] for place in places)

    wait_for(has_read_all, f"the messages of {topic}")
    return found


def read_compacted(consumer: Any, producer: Any, topic: str) -> list[Message]:
    """Read a compacted topic of one partition again and again, until no key has more than one message in it."""
    found: list[Message] = []

    def is_compacted() -> bool:
        # a segment ends when something is written after its time
        producer.send(topic, key=FILLER, value="").get(60)
        found[:] = [message for message in read_whole(consumer, topic) if message.key != FILLER]
        return len(found) == len({message.key for message in found})

    wait_for(is_compacted, "compaction: are these parts from before the last change of ours?")
    return found


def _to_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
