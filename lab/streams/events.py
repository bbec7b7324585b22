"""Events as values, in topics as JSON."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from lab.messages import Message, read_whole
from lab.workplace import Workplace

E = TypeVar("E")


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
