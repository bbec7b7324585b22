"""Events as values, in topics as JSON."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from cdc.lab.messages import Message, find_partitions, read_whole, take
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

E = TypeVar("E")
K = TypeVar("K", bound="Keyed")


def encode(event: object) -> bytes:
    """A dataclass as JSON."""
    return msgspec.json.encode(event)


def decode(message: Message, kind: type[E]) -> E:
    """The event in a message. Raises msgspec.DecodeError if it is none of this kind."""
    return msgspec.json.decode(str(message.value), type=kind)


def publish(place: Workplace, topic: str, events: Iterable[E], key: Callable[[E], str]) -> None:
    """Send events in this order, each to the partition of its key; returns when the broker has them all."""
    producer: Any = place.producer()
    for event in events:
        producer.send(topic, key=key(event), value=encode(event))
    producer.flush()


def read_events(place: Workplace, topic: str, kind: type[E]) -> list[E]:
    """Read all events of a topic; those of one partition come in their order."""
    return [decode(message, kind) for message in read_whole(place.consumer(), topic)]


class Keyed(Protocol):
    """An event with the key that decides its partition."""

    @property
    def key(self) -> str: ...


def pass_through(place: Workplace, events: Sequence[K]) -> Iterator[K]:
    """Send events, each kind to a topic of its own, and consume them; yields them in the order in which they are given.

    No broker promises an order between topics. Here the consumer makes it: it asks one topic, then the other.
    """
    producer: Any = place.producer()
    topics = {kind: place.topic(kind.__name__.lower()) for kind in dict.fromkeys(map(type, events))}
    for event in events:
        producer.send(topics[type(event)], key=event.key, value=encode(event))
    producer.flush()
    streams: dict[type[K], Iterator[K]] = {kind: _consume(place, topic, kind) for kind, topic in topics.items()}
    for event in events:
        yield next(streams[type(event)])


def _consume(place: Workplace, topic: str, kind: type[E]) -> Iterator[E]:
    """Consume for ever, each event when it is asked for."""
    consumer = place.consumer()
    consumer.assign(find_partitions(consumer, topic))
    messages: list[Message] = []

    def has_come() -> bool:
        messages[:] = take(consumer)
        return bool(messages)

    while True:
        wait_for(has_come, f"the next event of {topic}")
        yield from (decode(message, kind) for message in messages)
