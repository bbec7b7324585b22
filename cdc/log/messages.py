"""Messages of change topics for large runs: Spark tasks read them where they decode them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc.columns.netting.changes import Messages
from cdc.core.position import Offsets
from cdc.log.clients.reader import Reader
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of a partition: start ≤ offset < end."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageSource:
    """Reads stretches; picklable, for Spark tasks."""

    log: LogSettings

    def __call__(self, stretch: Stretch) -> Iterator[Messages]:
        """Read the committed messages without tombstones, in pieces. Raises like `Reader`."""
        # made in the task: a consumer cannot be pickled
        with Reader(self.log) as reader:
            yield from reader.read_messages(stretch.topic, stretch.partition, stretch.start, stretch.end)


def stretches(start: Offsets, first: Mapping[str, Mapping[int, int]], end: Offsets) -> list[Stretch]:
    """List the ranges from `start` (or from a partition's `first` offset, if that is higher) to `end`."""
    return [
        Stretch(topic, partition, begin, end[topic][partition])
        for topic, partitions in first.items()
        for partition, at in partitions.items()
        if (begin := max(start.get(topic, {}).get(partition, 0), at)) < end[topic].get(partition, 0)
    ]
