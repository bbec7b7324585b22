"""What a standing consumer keeps for later runs is bounded in bytes, whatever its messages' sizes."""

import time
from collections.abc import Collection
from dataclasses import dataclass

import pytest
from confluent_kafka import TopicPartition

from cdc.core.errors import TopicLostError, UnreachableError
from cdc.log.clients import standing_consumer
from cdc.log.clients.connection import STALL_SECONDS
from cdc.log.clients.partitions import LogPartition, PollResult
from cdc.log.clients.standing_consumer import MOST_WAITING_BYTES, StandingConsumer
from cdc.log.settings import LogSettings

MESSAGE_BYTES = 1024 * 1024
WANTED, BURST = "beats", "burst"


@dataclass(frozen=True)
class SentMessage:
    """A message of librdkafka."""

    place: LogPartition
    at: int

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return b""

    def value(self) -> bytes:
        return VALUE


VALUE = b"x" * MESSAGE_BYTES


class EndlessPartitions:
    """Three partitions a topic, in each of which another message waits at every poll, while it is assigned."""

    def __init__(self, log: LogSettings) -> None:
        self.consumer = self
        self.going: dict[LogPartition, int] = {}

    def of(self, topic: str) -> list[LogPartition]:
        return [LogPartition(topic, partition) for partition in range(3)]

    def first(self, places: Collection[LogPartition]) -> dict[LogPartition, int]:
        return dict.fromkeys(places, 0)

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        offsets = {LogPartition(each.topic, each.partition): each.offset for each in places}
        # as librdkafka does
        assert offsets.keys().isdisjoint(self.going), "one is assigned already"
        self.going |= offsets

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for each in places:
            del self.going[LogPartition(each.topic, each.partition)]

    def forget(self, topic: str) -> None:
        """It has the same partitions ever after."""

    def poll(self, seconds: float, most: int) -> PollResult:
        sent = [SentMessage(place, at) for place, at in self.going.items()]
        self.going |= {each.place: each.at + 1 for each in sent}
        return PollResult(sent, {})  # type: ignore[arg-type]


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> StandingConsumer:
    monkeypatch.setattr(standing_consumer, "Partitions", EndlessPartitions)
    return StandingConsumer(LogSettings(bootstrap="nowhere:9", prefix="p"))


def kept_bytes(consumer: StandingConsumer, *topics: str) -> int:
    return sum(consumer.waiting(topic) for topic in topics) * MESSAGE_BYTES


def test_messages_that_come_with_an_error_of_another_topic_are_read_again(
    consumer: StandingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.seek(WANTED, {})
    consumer.seek(BURST, {})
    consumer.read_on()
    poll = EndlessPartitions.poll

    def fail(self: EndlessPartitions, seconds: float, most: int) -> PollResult:
        # it has taken the messages of both
        poll(self, seconds, most)
        raise TopicLostError(BURST, "it is gone")

    with monkeypatch.context() as patched:
        patched.setattr(EndlessPartitions, "poll", fail)
        with pytest.raises(TopicLostError):
            consumer.read_on()
        consumer.forget(BURST)
        # of its other partitions
        assert not consumer.read_on()
    for _ in range(2):
        consumer.read_on()
    offsets = [message.offset() for place, each in consumer._of(WANTED) for message in each.waiting]
    assert offsets == [0, 1, 2] * 3
    assert consumer.waiting(BURST) == 0


def test_unwanted_topics_hold_no_more_than_the_limit_together(consumer: StandingConsumer) -> None:
    for topic in (WANTED, BURST, "other"):
        consumer.seek(topic, {})
    for _ in range(100):
        consumer.read_on([WANTED])
        consumer.advance(WANTED, dict.fromkeys(range(3), 2**31))
    # at most one poll beyond it
    assert MOST_WAITING_BYTES <= kept_bytes(consumer, BURST, "other") <= MOST_WAITING_BYTES + 9 * MESSAGE_BYTES


def test_topic_goes_on_once_its_run_is_read(consumer: StandingConsumer) -> None:
    consumer.seek(WANTED, {})
    consumer.seek(BURST, {})
    for _ in range(100):
        consumer.read_on([WANTED])
    # a run larger than the limit is read all the same
    assert kept_bytes(consumer, WANTED) == 3 * 100 * MESSAGE_BYTES
    before = consumer.waiting(BURST)
    consumer.advance(WANTED, dict.fromkeys(range(3), 2**31))
    consumer.read_on()
    assert consumer.waiting(BURST) == before + 3


def test_a_held_topic_is_forgotten_sought_and_rests_as_others_do(consumer: StandingConsumer) -> None:
    consumer.seek(WANTED, {})
    for topic in (BURST, "other", "third"):
        consumer.seek(topic, {})
    for _ in range(30):
        consumer.read_on([WANTED])
    consumer.forget("other")
    # at another offset than where it is
    consumer.seek(BURST, {0: 70})
    consumer.advance("third", dict.fromkeys(range(3), 2**31))
    consumer.advance(WANTED, dict.fromkeys(range(3), 2**31))
    consumer.read_on()
    assert consumer.starts(BURST) == {0: 70, 1: 0, 2: 0}
    assert [consumer.waiting(topic) for topic in (WANTED, BURST, "third", "other")] == [3, 3, 3, 0]


def test_all_go_on_after_a_rest_also_those_that_were_held(
    consumer: StandingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in (WANTED, BURST):
        consumer.seek(topic, {})
    for _ in range(30):
        consumer.read_on([WANTED])
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
    consumer.release()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2000)
    consumer.release()
    for topic in (WANTED, BURST):
        consumer.advance(topic, dict.fromkeys(range(3), 2**31))
    consumer.read_on()
    consumer.read_on()
    assert [consumer.waiting(topic) for topic in (WANTED, BURST)] == [6, 6]


def test_forgotten_topic_is_fetched_no_more(consumer: StandingConsumer) -> None:
    consumer.seek(WANTED, {})
    consumer.seek(BURST, {})
    consumer.read_on([BURST])
    consumer.forget(BURST)
    consumer.read_on([WANTED])
    assert consumer.waiting(BURST) == 0
    assert consumer.waiting(WANTED) == 6
    consumer.seek(BURST, {0: 70})
    consumer.read_on([BURST])
    assert consumer.starts(BURST) == {0: 70, 1: 0, 2: 0}


def test_a_reader_that_works_long_between_two_parts_finds_the_brokers_alive(
    consumer: StandingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first poll after that may bring nothing yet; only a silence of its own is one of the brokers."""
    consumer.seek(WANTED, {})
    consumer.read_on([WANTED])
    [place, *_] = consumer._places
    ends, now = {place: consumer._places[place].position + 1}, [time.monotonic() + 2 * STALL_SECONDS]
    silent, read_on = [True], consumer.read_on

    def poll(wanted: Collection[str] = ()) -> bool:
        now[0] += 1
        return not silent.pop() if silent else read_on(wanted)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(consumer, "read_on", poll)
    assert not consumer.read_until(ends, 1000)
    silent += [True] * 100
    with pytest.raises(UnreachableError):
        consumer.read_until({place: consumer._places[place].position + 1}, 1000)
