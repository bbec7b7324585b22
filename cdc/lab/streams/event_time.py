"""A rate by the time of processing has a spike that never was: its consumer was away, and had to catch up.

A producer writes evenly, each event with its own time. The same messages counted by that time are as even as they were.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from kafka import TopicPartition

from cdc.core.plural import format_count
from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.curves import Curve, Curves
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import take
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

EVENTS: Final = 480
SECONDS: Final = 3.0
"""So long do events happen."""
INTERVAL: Final = 0.2
USUAL: Final = EVENTS * INTERVAL / SECONDS
ALARM: Final = 2 * USUAL
"""More events than these in one interval, and somebody is woken up."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event: when it happened, as it says, and when the consumer got it."""

    happened: float
    arrived: float


@dataclass(frozen=True, slots=True)
class Rate:
    """How many events are in each interval, from the first one on."""

    counts: tuple[int, ...]

    @property
    def empty(self) -> int:
        return self.counts.count(0)

    @property
    def alarms(self) -> int:
        return sum(count > ALARM for count in self.counts)


class LiveTopic:
    """A topic while events happen and are sent."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._producer = place.producer()
        self._partition = TopicPartition(place.topic("event-time"), 0)
        self._began = 0.0
        self.sent = 0

    def produce(self, times: Sequence[float]) -> None:
        """Send each event when its time has come."""
        self._began = time.monotonic()
        for at in times:
            # until then nothing happens that could be sent
            time.sleep(max(0.0, at - self._now()))
            self._producer.send(self._partition.topic, value=str(at))
            self.sent += 1
        self._producer.flush()

    def open(self, group: str | None = None) -> Any:
        """Come as a consumer, to where the group is."""
        consumer = self._place.consumer(group_id=group)
        consumer.assign([self._partition])
        # asks the broker: from here on it is there
        consumer.position(self._partition)
        return consumer

    def consume(self, consumer: Any, events: int) -> list[Arrival]:
        """Consume so many events, and go."""
        found: list[Arrival] = []

        def has_come() -> bool:
            messages = take(consumer, most=events - len(found))
            found.extend(Arrival(float(str(message.value)), self._now()) for message in messages)
            return len(found) == events

        wait_for(has_come, f"{events} events")
        if consumer.config["group_id"]:
            consumer.commit()
        consumer.close(autocommit=False)
        return found

    def _now(self) -> float:
        return time.monotonic() - self._began


def run(place: Workplace) -> Findings:
    times = plan_times(place.random)
    topic, group = LiveTopic(place), place.group("event-time")
    steady, first = topic.open(), topic.open(group)
    place.say(f"{EVENTS} events in {SECONDS:.0f} s; one of two consumers is away for a third of them")
    with ThreadPoolExecutor(2) as threads:
        producing = threads.submit(topic.produce, times)
        watching = threads.submit(topic.consume, steady, EVENTS)
        before = topic.consume(first, EVENTS // 3)
        wait_for(lambda: topic.sent >= EVENTS * 2 // 3 or producing.done(), "two thirds of the events")
        after = topic.consume(topic.open(group), EVENTS - len(before))
        producing.result()
    away = [*before, *after]
    rates = {
        "by arrival, never away": count(watching.result(), lambda each: each.arrived),
        "by arrival, away for a third": count(away, lambda each: each.arrived),
        "the same messages, by their own time": count(away, lambda each: each.happened),
    }
    _, arrived, happened = rates.values()
    rows = [(name, sum(r.counts), r.empty, max(r.counts), r.alarms) for name, r in rates.items()]
    return Findings(
        columns=("counted", "events", "intervals without any", f"most in {INTERVAL} s", "false alarms"),
        rows=tuple(rows),
        sentence=f"When the consumer was back, {max(arrived.counts)} events arrived within {INTERVAL} s, though never"
        f" more than {max(happened.counts)} happened: {format_count(arrived.alarms, 'false alarm')} by arrival,"
        f" {happened.alarms} by the time in the events.",
        figure=_draw(rates),
    )


def plan_times(random: Random) -> list[float]:
    """Plan when the events happen: at an even rate, though not regularly."""
    every = SECONDS / EVENTS
    return sorted(min(SECONDS - every, every * (number + random.random() * 3)) for number in range(EVENTS))


def count(arrivals: Sequence[Arrival], time_of: Callable[[Arrival], float]) -> Rate:
    """Count the events in each interval of this time."""
    counts = Counter(int(time_of(each) / INTERVAL) for each in arrivals)
    return Rate(tuple(counts[number] for number in range(max(counts) + 1)))


def _draw(rates: dict[str, Rate]) -> Curves:
    curves = [
        Curve(name.removeprefix("the same messages, "), tuple((n * INTERVAL, float(c)) for n, c in enumerate(r.counts)))
        for name, r in rates.items()
    ]
    what = f"events in {INTERVAL} s"
    return Curves("A consumer was away and caught up: a spike by arrival, none by event time", tuple(curves), "s", what)


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Reasoning About Time", "Event time versus processing time"),
        Passage(SECOND, "Reasoning About Time", "Event time versus processing time"),
    ),
    files=("cdc/views/statement/time_windows.py", "cdc/views/TIME.md"),
    parts=(Service.KAFKA,),
    run=run,
)
