"""A validator: takes the commands of one partition, and writes as events what the state of the shop allows."""

from typing import Any, Final

from kafka import TopicPartition

from cdc.lab.derived.shop import Act, Shop, fold
from cdc.lab.messages import Message, read_whole, take_exactly
from cdc.lab.workplace import Workplace

AT_ONCE: Final = 8
"""So many commands are decided before it looks again at what has happened."""


class Validator:
    """Decides on the commands of a partition; `events` is the topic of all that has happened, also by others."""

    def __init__(self, place: Workplace, partition: TopicPartition, events: str) -> None:
        self._partition, self._events = partition, events
        self._commands, self._log, self._producer = place.consumer(), place.consumer(), place.producer()
        self._commands.assign([partition])
        self._end = self._commands.end_offsets([partition])[partition]
        self._shop = Shop()

    @property
    def is_done(self) -> bool:
        return bool(self._commands.position(self._partition) >= self._end)

    def look(self) -> None:
        """Fold what has happened until now."""
        self._shop = fold(read_acts(self._log, self._events))

    def decide(self) -> None:
        """Validate the next commands against the state, which changes by what it allows."""
        left = self._end - self._commands.position(self._partition)
        for command in map(_parse, take_exactly(self._commands, min(AT_ONCE, left))):
            if self._shop.allows(command):
                self._shop.take_in(command)
                self._producer.send(self._events, value=command.as_text())
        self._producer.flush()


def read_acts(consumer: Any, topic: str, start: int | None = None) -> list[Act]:
    """Read all commands or events of a topic, from its beginning or an offset."""
    return [_parse(message) for message in read_whole(consumer, topic, start)]


def _parse(message: Message) -> Act:
    return Act.from_text(str(message.value))
