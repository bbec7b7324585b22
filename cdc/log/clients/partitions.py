"""Partitions of topics: which there are, and where they begin and end."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cdc.core.errors import RECAPTURE, TopicLostError
from cdc.log.clients.connection import OFFSET_LOST, REQUEST_SECONDS, UNKNOWN, Answer, Connection
from cdc.log.settings import LogSettings


class LogPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def at(self, offset: int) -> TopicPartition:
        return TopicPartition(self.topic, self.partition, offset)


_FETCHING: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # tells when a partition has been read to its end: its last offset may be a marker, which is no message (KIP-98);
    # told by the first answer without messages, for which a broker waits so long
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "check.crcs": True,
    "max.partition.fetch.bytes": 4 * 1024 * 1024,
    "queued.max.messages.kbytes": 32 * 1024,
    # what is full is taken at once, and the default looks again after a second
    "fetch.queue.backoff.ms": 10,
}


@dataclass(frozen=True, slots=True)
class PollResult:
    """Messages, in order within each partition, and the partitions that have been read to their end, which is where."""

    messages: list[Message]
    ended: Mapping[LogPartition, int]


class Partitions:
    """A consumer that joins no group, and what it knows of partitions; reads `committed` records only, or all."""

    def __init__(self, log: LogSettings, *, committed: bool = True) -> None:
        self._connection = Connection(log)
        self._known: dict[str, list[LogPartition]] = {}
        options = {
            **self._connection.options(),
            **_FETCHING,
            # the client wants one; nothing joins it, and nothing is committed
            "group.id": f"cdc-{log.prefix}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        with self._connection.translate_errors():
            self.consumer = Consumer(options)

    def close(self) -> None:
        self.consumer.close()

    def of(self, topic: str) -> list[LogPartition]:
        """The partitions of a topic, none when there is no such topic."""
        # asked once: somebody may add partitions, but most who ask do so for every batch (`asked_again`)
        return self._known.get(topic) or self.refresh(topic)

    def refresh(self, topic: str) -> list[LogPartition]:
        """The partitions that a topic has by now."""
        found = self._ask(lambda: self.consumer.list_topics(topic, REQUEST_SECONDS).topics[topic].partitions)
        self._known[topic] = [LogPartition(topic, partition) for partition in sorted(found)]
        return self._known[topic]

    def forget(self, topic: str) -> None:
        """Ask anew which partitions a topic has: it may have been made anew."""
        self._known.pop(topic, None)

    def first(self, places: Collection[LogPartition]) -> dict[LogPartition, int]:
        """The first offset of each that is still there."""
        return self._bounds(places, OFFSET_BEGINNING)

    def ends(self, places: Collection[LogPartition]) -> dict[LogPartition, int]:
        """The offset of each behind the last record that this consumer may see."""
        return self._bounds(places, OFFSET_END)

    def poll(self, seconds: float, most: int) -> PollResult:
        """What comes within `seconds`, as soon as something does.

        Raises PreconditionError for what a broker refuses, an offset that is gone among it, UnreachableError when all
        brokers have gone.
        """
        with self._connection.translate_errors():
            first = self.consumer.poll(seconds)
            if first is None:
                self._connection.check()
                return PollResult([], {})
            self._connection.mark_answered()
            # a second wait would be for as many messages as it may give
            return _split_events([first, *self.consumer.consume(most, 0)])

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        def heard() -> Answer:
            try:
                return question()
            except KafkaException:
                # its connections' trouble is told in a poll, which takes a message where something is read already
                if not self.consumer.assignment():
                    self.consumer.poll(0)
                raise

        return self._connection.ask(heard)

    def _bounds(self, places: Collection[LogPartition], which: int) -> dict[LogPartition, int]:
        """Ask by time: the protocol knows the first and the last offset by times that are none (ListOffsets)."""

        def answers() -> list[TopicPartition]:
            found = self.consumer.offsets_for_times([place.at(which) for place in places], REQUEST_SECONDS)
            for each in found:
                if each.error:
                    raise KafkaException(each.error)
            return found

        found = self._ask(answers) if places else []
        return {LogPartition(each.topic, each.partition): each.offset for each in found}


def _split_events(found: list[Message]) -> PollResult:
    ended: dict[LogPartition, int] = {}
    for message in found:
        error = message.error()
        if error is None:
            continue
        if error.code() in OFFSET_LOST | UNKNOWN:
            topic = message.topic() or ""
            raise TopicLostError(topic, f"{topic} no longer has what was to be read next: {error.str()}", RECAPTURE)
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        ended[LogPartition(message.topic() or "", message.partition() or 0)] = message.offset() or 0
    return PollResult([message for message in found if message.error() is None] if ended else found, ended)
