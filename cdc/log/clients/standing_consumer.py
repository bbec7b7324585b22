"""A standing consumer for small runs: it stays assigned, and keeps the messages that it has read beyond a run."""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Message

from cdc.columns.netting.changes import Messages
from cdc.core.errors import RECAPTURE, CdcError, PreconditionError, TopicLostError, UnreachableError
from cdc.log.clients.connection import STALL_SECONDS
from cdc.log.clients.message_columns import to_messages
from cdc.log.clients.partitions import LogPartition, Partitions
from cdc.log.settings import LogSettings

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""How much to keep for later runs, in all partitions together; with more, those of unwanted topics are held back."""
MESSAGE_BYTES: Final = 300
"""What a message takes beside its key and value: objects of Python. 212,000 messages had 60 MiB."""
REST_SECONDS: Final = 3.0
"""Unassign partitions when idle this long; the next read takes about 0.1 s longer."""
POLL_SECONDS: Final = 0.2
POLL_RECORDS: Final = 20_000


@dataclass(slots=True)
class _Partition:
    """A partition's messages from `start` to `position`, which are read and not released by `advance`.

    `size`: the bytes that they take. `is_held`: it is not assigned, since enough is waiting.
    """

    start: int
    position: int
    waiting: deque[Message] = field(default_factory=deque)
    size: int = 0
    is_held: bool = False

    def add(self, message: Message) -> None:
        self.waiting.append(message)
        self.size += _size(message)

    def drop_before(self, stop: int) -> None:
        while self.waiting and (self.waiting[0].offset() or 0) < stop:
            self.size -= _size(self.waiting.popleft())
        self.start = max(self.start, stop)


class StandingConsumer:
    """Reads partitions from any offset, and goes on from there; for one thread at a time.

    Leaves messages without a value out, unless `tombstones` is true.
    """

    def __init__(self, log: LogSettings, *, tombstones: bool = False) -> None:
        self._log = log
        self._places: dict[LogPartition, _Partition] = {}
        self._heard = time.monotonic()
        self._tombstones = tombstones
        self._resting = False
        self._done = 0.0
        self._partitions = Partitions(log)

    def close(self) -> None:
        self._partitions.close()

    def seek(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Continue a topic at these offsets: partition → offset.

        A partition without an offset, or whose offset retention has deleted, starts at its beginning. Raises
        TopicLostError when there is no such topic.
        """
        places = [place for place in self._places if place.topic == topic] or self._find_partitions(topic)
        # at the offset of the last `advance`, the messages already read are used; at any other offset, reading restarts
        lost = [p for p in places if p not in self._places or self._places[p].start != offsets.get(p.partition)]
        if lost:
            with self._naming_lost(topic):
                first = self._partitions.first(lost)
            self._begin({place: max(offsets.get(place.partition, 0), first[place]) for place in lost})

    def forget(self, topic: str) -> None:
        """Unassign a topic and drop its messages: it may have been created anew, or somebody else reads it on."""
        own = [place for place, _ in self._of(topic)]
        self._unassign(own)
        for place in own:
            del self._places[place]
        self._partitions.forget(topic)

    def discover(self, topic: str) -> int:
        """Start reading added partitions of a topic; returns its number of partitions."""
        found = self._partitions.refresh(topic)
        # from their beginning: a producer may write to a new partition before anybody looks
        if new := [place for place in found if place not in self._places]:
            self._begin(self._partitions.first(new))
        return len(found)

    def messages(self, topic: str) -> Messages:
        """The waiting messages of a topic, in order within each partition."""
        return to_messages(topic, [message for _, each in self._of(topic) for message in each.waiting])

    def values(self, topic: str) -> tuple[list[int], list[bytes | None]]:
        """The offsets and values of the waiting messages of a topic with one partition."""
        found = [message for _, each in self._of(topic) for message in each.waiting]
        return [message.offset() or 0 for message in found], [message.value() for message in found]

    def waiting(self, topic: str) -> int:
        """Count the waiting messages of a topic."""
        return sum(len(each.waiting) for _, each in self._of(topic))

    def size(self, topic: str) -> int:
        """The bytes of the waiting messages of a topic."""
        return sum(each.size for _, each in self._of(topic))

    def advance(self, topic: str, until: Mapping[int, int]) -> None:
        """Drop messages before these offsets: the next run begins there."""
        for place, each in self._of(topic):
            # a partition without changes of the run stays where it was
            each.drop_before(until.get(place.partition, each.start))

    def starts(self, topic: str) -> dict[int, int]:
        """The offset of the first waiting message: partition → offset."""
        return {place.partition: each.start for place, each in self._of(topic)}

    def release(self) -> None:
        """End a run. If runs are rarer than REST_SECONDS, unassign the partitions until the next read.

        An assigned consumer asks a broker ten times a second.
        """
        before, self._done = self._done, time.monotonic()
        if self._places and not self._resting and self._done - before > REST_SECONDS:
            self._rest()

    def _rest(self) -> None:
        self._unassign(self._places)
        self._resting = True

    def _wake(self) -> None:
        if self._resting:
            self._assign(self._places)
            # no broker was asked meanwhile
            self._heard = time.monotonic()
        self._resting = False

    def read_on(self, wanted: Collection[str] = ()) -> bool:
        """Wait a moment for more messages of any topic; returns whether any came.

        The `wanted` topics are never held back. Raises UnreachableError when all brokers are down.
        """
        self._wake()
        self._hold_back(wanted)
        try:
            found = self._partitions.poll(POLL_SECONDS, POLL_RECORDS)
        except CdcError as error:
            # messages that came with the error are in nobody's hands: all is read on from where it stands here
            self._rest()
            # each partition of a topic that is gone has an error, and some come when the topic is read no more
            if isinstance(error, TopicLostError) and not any(self._of(error.topic)):
                return False
            raise
        for message in found.messages:
            own = self._places[message.topic(), message.partition()]  # type: ignore[index]
            own.position = (message.offset() or 0) + 1
            if self._tombstones or message.value() is not None:
                own.add(message)
        # markers of transactions come as no message: without the reported end, `behind` would count them for ever
        for place, end in found.ended.items():
            self._places[place].position = max(self._places[place].position, end)
        moved = bool(found.messages or found.ended)
        if moved:
            self._heard = time.monotonic()
        return moved

    def behind(self, topic: str) -> int:
        """Count the offsets between the last read message and the committed end."""
        ends = self._ends(topic)
        return sum(max(end - self._places[place].position, 0) for place, end in ends.items())

    def committed_end(self, topic: str, most: int) -> dict[LogPartition, int]:
        """Read the committed end of each partition, at most `most` offsets ahead."""
        ends = {place: min(end, self._places[place].position + most) for place, end in self._ends(topic).items()}
        # a broker has just answered
        self._heard = time.monotonic()
        return ends

    def read_until(self, ends: Mapping[LogPartition, int], many: int) -> bool:
        """Read up to these offsets, or until `many` messages wait; returns whether anything is left to read.

        Raises like `check_alive`.
        """
        topics = {place.topic for place in ends}
        # since the last part, its reader may have worked for longer than STALL_SECONDS, and no broker was asked
        self._heard = time.monotonic()
        while any(self._places[place].position < end for place, end in ends.items()):
            if sum(map(self.waiting, topics)) >= many:
                return True
            if not self.read_on(topics):
                self.check_alive()
        return False

    def check_alive(self) -> None:
        """Raise UnreachableError when no broker has answered for STALL_SECONDS."""
        if time.monotonic() - self._heard > STALL_SECONDS:
            raise UnreachableError(f"Kafka {self._log.bootstrap} sends nothing", "is every broker running?")

    def _ends(self, topic: str) -> dict[LogPartition, int]:
        with self._naming_lost(topic):
            return self._partitions.ends([place for place, _ in self._of(topic)])

    @contextmanager
    def _naming_lost(self, topic: str) -> Iterator[None]:
        """Raise TopicLostError for a refusal of a topic that is gone since its partitions were asked for."""
        try:
            yield
        except PreconditionError:
            if not self._partitions.refresh(topic):
                raise no_topic_error(topic) from None
            raise

    def _find_partitions(self, topic: str) -> list[LogPartition]:
        found = self._partitions.of(topic)
        if not found:
            raise no_topic_error(topic)
        return found

    def _begin(self, offsets: Mapping[LogPartition, int]) -> None:
        """Assign these partitions at these offsets, and drop the messages read so far."""
        # awake first: librdkafka unassigns only an assigned partition, and assigns none twice
        self._wake()
        self._unassign([place for place in offsets if place in self._places])
        for place, offset in offsets.items():
            self._places[place] = _Partition(offset, offset)
        self._assign(offsets)

    def _of(self, topic: str) -> Iterator[tuple[LogPartition, _Partition]]:
        return ((place, each) for place, each in self._places.items() if place.topic == topic)

    def _hold_back(self, wanted: Collection[str]) -> None:
        """Read no more of unwanted topics while enough is waiting: a wanted run may be larger than that."""
        is_full = sum(each.size for each in self._places.values()) >= MOST_WAITING_BYTES
        due = {place for place in self._places if is_full and place.topic not in wanted}
        self._unassign(due)
        self._assign([place for place, each in self._places.items() if each.is_held and place not in due])
        for place in due:
            self._places[place].is_held = True

    def _assign(self, places: Collection[LogPartition]) -> None:
        """Have partitions read from where they are.

        Not by pause and resume: librdkafka takes up to a second for that (seen), and forgets to resume a partition that
        was assigned at about the same time (issue 5591): a run then waited for a minute, and failed.
        """
        if places:
            at = [place.at(self._places[place].position) for place in places]
            self._partitions.consumer.incremental_assign(at)
        for place in places:
            self._places[place].is_held = False

    def _unassign(self, places: Collection[LogPartition]) -> None:
        """Have partitions read no more, those of them that are assigned: librdkafka refuses the others."""
        if going := [place.at(0) for place in places if not (self._resting or self._places[place].is_held)]:
            self._partitions.consumer.incremental_unassign(going)


def _size(message: Message) -> int:
    return MESSAGE_BYTES + len(message.value() or b"") + len(message.key() or b"")


def no_topic_error(topic: str) -> TopicLostError:
    return TopicLostError(topic, f"there is no topic {topic}", RECAPTURE)
