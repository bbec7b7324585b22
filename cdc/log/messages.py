"""Messages of change topics for runs that are worth a Spark job, read where they are decoded: by its tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc.columns.netting.changes import Messages
from cdc.core.position import Offsets
from cdc.log.clients.reader import Reader
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a partition: the offsets start ≤ offset < end."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageSource:
    """Reads stretches on whatever machine it is sent to."""

    log: LogSettings

    def __call__(self, stretch: Stretch) -> Iterator[Messages]:
        """The committed messages, tombstones left out, as they come. Raises as `Reader` does."""
        with Reader(self.log) as reader:
            yield from reader.read_messages(stretch.topic, stretch.partition, stretch.start, stretch.end)


def stretches(start: Offsets, first: Mapping[str, Mapping[int, int]], end: Offsets) -> list[Stretch]:
    """What lies between the offsets where reading goes on, or where a topic begins by now, and its end."""
    return [
        Stretch(topic, partition, begin, end[topic][partition])
        for topic, partitions in first.items()
        for partition, at in partitions.items()
        if (begin := max(start.get(topic, {}).get(partition, 0), at)) < end[topic].get(partition, 0)
    ]
