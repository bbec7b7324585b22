"""Messages of change topics for small runs: one consumer that stands ready, and what it has read beyond a run."""

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

from cdc.columns.changes import MESSAGES
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.log.clients.connection import STALL_SECONDS, client_options, reported
from cdc.log.settings import LogSettings

OLD_KEY_HEADER = "__debezium.oldkey"
NEW_KEY_HEADER = "__debezium.newkey"
"""On the create, and on the delete before it, that a changed key causes (Debezium, "Primary key updates")."""

MOST_WAITING = 100_000
"""Messages of one partition that are kept for later runs; with more, it is not read on until some are taken."""
POLL_MS, POLL_RECORDS = 200, 20_000

Message = tuple[str, int, int, bytes | None, bytes, bytes | None, bool]
"""The columns of `MESSAGES`."""


@dataclass(slots=True)
class _Partition:
    """What has been read of a partition and not been taken yet: messages from `start` up to `position`."""

    start: int
    position: int
    waiting: deque[Message] = field(default_factory=deque)


class StandingConsumer:
    """Reads partitions from wherever it is told, and goes on from there; for one thread at a time."""

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._heard = time.monotonic()
        with reported(log):
            self._consumer = KafkaConsumer(
                **client_options(log),
                isolation_level="read_committed",
                enable_auto_commit=False,
                group_id=None,
                auto_offset_reset="none",
                max_partition_fetch_bytes=4 * 1024 * 1024,
            )

    def close(self) -> None:
        self._consumer.close()

    def stand(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Be ready to give messages of a topic from these offsets on, partition by partition.

        A partition without an offset, or whose offset retention has taken away, is read from its beginning. Raises
        PreconditionError when there is no such topic.
        """
        places = [place for place in self._partitions if place.topic == topic] or self._discovered(topic)
        lost = [p for p in places if p not in self._partitions or self._partitions[p].start != offsets.get(p.partition)]
        if lost:
            with reported(self._log):
                first = self._consumer.beginning_offsets(lost)
            for place in lost:
                self._seek(place, max(offsets.get(place.partition, 0), first[place]))

    def messages(self, topic: str) -> pa.Table:
        """What has been read of a topic and not been taken: columns of `MESSAGES`, in order within each partition."""
        found = [message for place, each in self._of(topic) for message in each.waiting]
        columns: Iterable[Sequence[object]] = zip(*found, strict=True) if found else [()] * len(MESSAGES)
        return pa.Table.from_arrays(
            [pa.array(column, kind.type) for column, kind in zip(columns, MESSAGES, strict=True)], schema=MESSAGES
        )

    def waiting(self, topic: str) -> int:
        """How many messages of a topic have been read and not been taken."""
        return sum(len(each.waiting) for _, each in self._of(topic))

    def take(self, topic: str, until: Mapping[int, int]) -> None:
        """Forget what lies before these offsets: the next run begins there."""
        for place, each in self._of(topic):
            stop = until.get(place.partition, each.start)
            while each.waiting and each.waiting[0][2] < stop:
                each.waiting.popleft()
            each.start = max(each.start, stop)

    def starts(self, topic: str) -> dict[int, int]:
        """Where the messages that wait begin, partition by partition."""
        return {place.partition: each.start for place, each in self._of(topic)}

    def read_on(self, wanted: Collection[str] = ()) -> bool:
        """Wait a moment for more messages, of whatever topic; says whether any came.

        Of the topics that are `wanted`, more are read however many wait. Raises UnreachableError when no broker has
        answered for a minute.
        """
        with reported(self._log):
            self._hold_back(wanted)
            found = self._consumer.poll(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
        for place, records in found.items():
            own = self._partitions[place]
            own.waiting.extend(_messages(records))
        moved = self._moved()
        if moved:
            self._heard = time.monotonic()
        return moved

    def behind(self, topic: str) -> int:
        """How many offsets lie between what has been read and what is committed now."""
        return sum(max(end - self._partitions[place].position, 0) for place, end in self._ends(topic).items())

    def read_to_end(self, topic: str) -> None:
        """Read all that is committed when this is asked. Raises like `check_alive`."""
        ends = self._ends(topic)
        # that was an answer: whoever has not been asked for long has not been silent
        self._heard = time.monotonic()
        while any(self._partitions[place].position < end for place, end in ends.items()):
            if not self.read_on([topic]):
                self.check_alive()

    def check_alive(self) -> None:
        if time.monotonic() - self._heard > STALL_SECONDS:
            raise UnreachableError(f"Kafka {self._log.bootstrap} sends nothing", "is every broker running?")

    def _ends(self, topic: str) -> dict[TopicPartition, int]:
        """Where what is committed now ends."""
        with reported(self._log):
            found: dict[TopicPartition, int] = self._consumer.end_offsets([place for place, _ in self._of(topic)])
        return found

    def _discovered(self, topic: str) -> list[TopicPartition]:
        with reported(self._log):
            found = self._consumer.partitions_for_topic(topic)
        if not found:
            raise PreconditionError(f"there is no topic {topic}", "run `cdc bootstrap`")
        places = [TopicPartition(topic, partition) for partition in sorted(found)]
        self._consumer.assign([*self._partitions, *places])
        for place, each in self._partitions.items():
            self._consumer.seek(place, each.position)
        return places

    def _seek(self, place: TopicPartition, offset: int) -> None:
        self._consumer.seek(place, offset)
        self._partitions[place] = _Partition(offset, offset)

    def _of(self, topic: str) -> Iterator[tuple[TopicPartition, _Partition]]:
        return ((place, each) for place, each in self._partitions.items() if place.topic == topic)

    def _hold_back(self, wanted: Collection[str]) -> None:
        full = {
            place
            for place, each in self._partitions.items()
            if len(each.waiting) >= MOST_WAITING and place.topic not in wanted
        }
        paused = set(self._consumer.paused())
        if full - paused:
            self._consumer.pause(*(full - paused))
        if paused - full:
            self._consumer.resume(*(paused - full))

    def _moved(self) -> bool:
        """Take over how far the consumer is: its position passes tombstones and markers, too."""
        moved = False
        for place, each in self._partitions.items():
            position = self._consumer.position(place)
            moved |= position > each.position
            each.position = position
        return moved


def _messages(records: Iterable[object]) -> Iterator[Message]:
    """The records that are no tombstones."""
    for record in records:
        value, headers = record.value, record.headers  # type: ignore[attr-defined]
        if value is None:
            continue
        named = dict(headers) if headers else {}
        yield (
            record.topic,  # type: ignore[attr-defined]
            record.partition,  # type: ignore[attr-defined]
            record.offset,  # type: ignore[attr-defined]
            record.key,  # type: ignore[attr-defined]
            value,
            named.get(OLD_KEY_HEADER),
            NEW_KEY_HEADER in named,
        )
