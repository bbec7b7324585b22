"""A log keeps so much and no more: who reads too slowly falls off its end.

The broker deletes whole segments, the oldest first, whoever has not read them. Four consumers have the same log.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from cdc.core.waiting import Deadline
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, ReaderMark
from cdc.lab.lesson import Findings
from cdc.lab.messages import take
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

SIZE: Final = 1_024  # bytes of an event
KEPT: Final = 32  # so many events are kept at least
EVENTS: Final = 4 * KEPT
ROUND: Final = 8  # so many events are written before the consumers look again
SEGMENT_SECONDS: Final = 0.1
SETTINGS: Final = {"segment.ms": "100", "retention.bytes": str(KEPT * SIZE), "file.delete.delay.ms": "0"}


class LogConsumer:
    """A consumer: all that it has read, and what it was told about being slow. It keeps its offset when it is away."""

    def __init__(self, place: Workplace, partition: TopicPartition, name: str, *, is_strict: bool = True) -> None:
        self.name = name
        self.read: set[int] = set()
        self.told = "nothing"
        self.offset = 0
        # "earliest" goes on behind a gap and says nothing, "none" raises an error
        self._open = partial(place.consumer, partition, auto_offset_reset="none" if is_strict else "earliest")
        self._partition = partition

    def read_to(self, end: int) -> None:
        """Come, read on until the event before `end`, and go."""
        if self.offset >= end:
            return
        consumer = self._open()
        consumer.seek(self._partition, self.offset)

        def has_come() -> bool:
            self.read |= {message.offset for message in take(consumer, most=end - self.offset)}
            self.offset = consumer.position(self._partition)
            return self.offset >= end

        wait_for(has_come, f"the events for {self.name}")
        consumer.close()

    def hear(self, end: int, start: int) -> None:
        """Read to the end of the log, which begins at `start`, when that is too far away."""
        if end - self.offset > KEPT // 2:
            if self.told == "nothing":
                self.told = f"{end - self.offset} behind, {max(start - self.offset, 0)} of them gone"
            self.read_to(end)


def run(place: Workplace) -> Findings:
    partition = TopicPartition(place.topic("retention", settings=SETTINGS), 0)
    stops = place.random.randint(3, ROUND)
    quick, careless, strict, watched = everybody = (
        LogConsumer(place, partition, "quick"),
        LogConsumer(place, partition, "slow, goes on with what is left", is_strict=False),
        LogConsumer(place, partition, "slow, fails at the gap"),
        LogConsumer(place, partition, "slow, warned in time"),
    )
    place.say(f"{EVENTS} events, of which the log keeps {KEPT} or some more; the slow ones pause after {stops}")
    monitor = place.consumer()

    def find_start() -> int:
        return int(monitor.beginning_offsets([partition])[partition])

    for end in _produce(place, partition.topic):
        quick.read_to(end)
        for slow in (careless, strict, watched):
            slow.read_to(min(end, stops))
        watched.hear(end, find_start())
    place.say("the broker deletes the events that are too many every few seconds")
    awaited = "retention: are these parts from before the last change of ours?"
    wait_for(lambda: find_start() > EVENTS - 2 * KEPT, awaited)
    for each in everybody:
        try:
            each.read_to(EVENTS)
        except OffsetOutOfRangeError:
            each.told = "its offset is out of range"
    start = find_start()
    rows = [(each.name, *count_read(each.read, start), each.told) for each in everybody]
    return Findings(
        columns=("consumer", "written", "read", "gone unread", "still there, unread", "was told"),
        rows=rows,
        sentence=f"A consumer that stood still went on behind a gap of {rows[1][3]} events, and nobody told it; one"
        f" that was warned at more than {KEPT // 2} behind, half of what is kept, and went on lost {rows[3][3]}.",
        figure=_draw(start, stops),
    )


def count_read(read: set[int], start: int) -> tuple[int, int, int, int]:
    """Count the events, those read, those deleted before they were, and those that wait behind `start`."""
    unread = set(range(EVENTS)) - read
    gone = sum(offset < start for offset in unread)
    return EVENTS, len(read), gone, len(unread) - gone


def _produce(place: Workplace, topic: str) -> Iterator[int]:
    """Write the events in rounds; yields how many are written after each."""
    producer = place.producer()
    for end in range(ROUND, EVENTS + 1, ROUND):
        segment = Deadline(SEGMENT_SECONDS)
        for number in range(end - ROUND, end):
            producer.send(topic, value=str(number).encode().ljust(SIZE, b"."))
        producer.flush()
        yield end
        # a segment takes no more after its time: so each round begins another one, which can be deleted alone
        time.sleep(segment.seconds_left)


def _draw(start: int, stops: int) -> LogFigure:
    """Draw one cell for every few events."""
    step = KEPT // 8
    cells = [Cell(offset, "", Tone.QUIET if offset < start else Tone.PLAIN) for offset in range(0, EVENTS, step)]
    readers = (
        ReaderMark("slow: what it comes to next is deleted", stops, Tone.BAD),
        ReaderMark("where the log begins now", start, Tone.PLAIN),
        ReaderMark("quick, and who was warned", EVENTS, Tone.GOOD),
    )
    title = f"A log that keeps so much and no more: a box is {step} events, grey is deleted"
    return LogFigure(title, {"log": cells}, {"log": readers})
