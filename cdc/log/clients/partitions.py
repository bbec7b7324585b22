"""Partitions of topics, and their first and last offsets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from cdc.core.errors import RECAPTURE, PreconditionError, TopicLostError
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
    # reports the end of a partition: its last offset may be a marker, which is no message (KIP-98). The report comes
    # with the first empty answer, for which a broker waits fetch.wait.max.ms
    "enable.partition.eof": True,
    # off by default, other than in Kafka's own client
    "check.crcs": True,
    "max.partition.fetch.bytes": 4 * 1024 * 1024,
    "queued.max.messages.kbytes": 32 * 1024,
    # a full queue is drained at once, but by default fetching resumes after a second
    "fetch.queue.backoff.ms": 10,
}


@dataclass(frozen=True, slots=True)
class PollResult:
    """Messages, in order within each partition, and the partitions that are read to their end, with that offset."""

    messages: list[Message]
    ended: Mapping[LogPartition, int]


class Partitions:
    """A consumer without a group, and the known partitions; reads `committed` records only, or all.

    `empty_ms`: how long a broker waits with an empty answer. `ahead_bytes`: what it asks for at once, and keeps; what
    _FETCHING says if it is None.
    """

    def __init__(
        self, log: LogSettings, *, committed: bool = True, empty_ms: int = 100, ahead_bytes: int | None = None
    ) -> None:
        self._connection = Connection(log)
        self._known: dict[str, list[LogPartition]] = {}
        options = {
            **self._connection.options(),
            **_FETCHING,
            **(_fetching_at_most(ahead_bytes) if ahead_bytes else {}),
            "fetch.wait.max.ms": empty_ms,
            # required by the client; nothing joins it, and no offset is committed
            "group.id": f"cdc-{log.prefix}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        with self._connection.translate_errors():
            self.consumer = Consumer(options)
        self._connection.attach(self.consumer)

    def close(self) -> None:
        self.consumer.close()

    def of(self, topic: str) -> list[LogPartition]:
        """The partitions of a topic, none when there is no such topic."""
        # asked once: somebody may add partitions, but most who ask do so for every batch (`refresh`)
        return self._known.get(topic) or self.refresh(topic)

    def refresh(self, topic: str) -> list[LogPartition]:
        """Ask for the partitions of a topic again."""
        found = self._ask(lambda: self.consumer.list_topics(topic, REQUEST_SECONDS).topics[topic].partitions)
        self._known[topic] = [LogPartition(topic, partition) for partition in sorted(found)]
        return self._known[topic]

    def forget(self, topic: str) -> None:
        """Forget a topic's partitions: it may have been created anew."""
        self._known.pop(topic, None)

    def first(self, places: Collection[LogPartition]) -> dict[LogPartition, int]:
        """Read the first remaining offset of each partition."""
        return self._bounds(places, OFFSET_BEGINNING)

    def ends(self, places: Collection[LogPartition]) -> dict[LogPartition, int]:
        """Read the offset behind the last record of each partition that this consumer may see."""
        return self._bounds(places, OFFSET_END)

    def poll(self, seconds: float, most: int) -> PollResult:
        """Wait up to `seconds` for messages; returns as soon as there are some.

        Raises PreconditionError when a broker refuses, TopicLostError when an offset is gone, UnreachableError when all
        brokers are down.
        """
        with self._connection.translate_errors():
            first = self.consumer.poll(seconds)
            if first is None:
                self._connection.check()
                return PollResult([], {})
            self._connection.mark_answered()
            # without a time-out: it would wait until all `most` messages are there
            return _split_events([first, *self.consumer.consume(most, 0)])

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        def heard() -> Answer:
            try:
                return question()
            except KafkaException:
                # a poll reports the connection's errors; with an assignment it would also consume a message
                if not self.consumer.assignment():
                    self.consumer.poll(0)
                raise

        return self._connection.ask(heard)

    def _bounds(self, places: Collection[LogPartition], which: int) -> dict[LogPartition, int]:
        """Ask for offsets by time: ListOffsets has special times for the first and the last offset."""

        def answers() -> list[TopicPartition]:
            found = self.consumer.offsets_for_times([place.at(which) for place in places], REQUEST_SECONDS)
            for each in found:
                if each.error:
                    raise KafkaException(each.error)
            return found

        try:
            found = self._ask(answers) if places else []
        except PreconditionError as error:
            # a topic that was deleted since its partitions were asked for has none any more
            there = [place for place in places if not _is_unknown(error.__cause__) or self.refresh(place.topic)]
            if len(there) == len(places):
                raise
            return self._bounds(there, which)
        return {LogPartition(each.topic, each.partition): each.offset for each in found}


def _is_unknown(error: BaseException | None) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in UNKNOWN


def _fetching_at_most(size: int) -> dict[str, Any]:
    return {"max.partition.fetch.bytes": size, "queued.max.messages.kbytes": max(size // 1024, 1)}


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
