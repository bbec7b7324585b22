"""A rate by the time of processing has a spike that never was: its consumer was away, and had to catch up.

A producer writes evenly, each event with its own time. The same messages counted by that time are as even as they were.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

from kafka import TopicPartition

from cdc.core.text.plural import format_count
from cdc.lab.figures.curves import Curves
from cdc.lab.lesson import Findings
from cdc.lab.messages import take
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

EVENTS: Final = 480
SECONDS: Final = 3.0  # so long do events happen
INTERVAL: Final = 0.2
USUAL: Final = EVENTS * INTERVAL / SECONDS
ALARM: Final = 2 * USUAL  # more events than these in one interval, and somebody is woken up

Arrival = tuple[float, float]
"""When an event happened, as it says, and when the consumer got it."""


class LiveTopic:
    """A topic while events happen and are sent."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._producer = place.producer()
        self._log = TopicPartition(place.topic("event-time"), 0)
        self._began = 0.0
        self.sent = 0

    def produce(self, times: Sequence[float]) -> None:
        self._began = time.monotonic()
        for at in times:
            # until then nothing happens that could be sent
            time.sleep(max(0.0, at - self._now()))
            self._producer.send(self._log.topic, value=str(at))
            self.sent += 1
        self._producer.flush()

    def open(self, group: str | None = None) -> Any:
        """Come as a consumer, to where the group is."""
        consumer = self._place.consumer(self._log, group_id=group)
        # asks the broker: from here on it is there
        consumer.position(self._log)
        return consumer

    def consume(self, consumer: Any, events: int) -> list[Arrival]:
        found: list[Arrival] = []

        def has_come() -> bool:
            messages = take(consumer, most=events - len(found))
            found.extend((message.decode(float), self._now()) for message in messages)
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
        away = before + topic.consume(topic.open(group), EVENTS - len(before))
        producing.result()
    rates = {
        "by arrival, never away": count(arrived for _, arrived in watching.result()),
        "by arrival, away for a third": count(arrived for _, arrived in away),
        "the same messages, by their own time": count(happened for happened, _ in away),
    }
    rows = [(name, sum(rate), rate.count(0), max(rate), count_alarms(rate)) for name, rate in rates.items()]
    _, (*_, spike, false_alarms), (*_, most, alarms) = rows
    return Findings(
        columns=("counted", "events", "intervals without any", f"most in {INTERVAL} s", "false alarms"),
        rows=rows,
        sentence=f"When the consumer was back, {spike} events arrived within {INTERVAL} s, though never"
        f" more than {most} happened: {format_count(false_alarms, 'false alarm')} by arrival,"
        f" {alarms} by the time in the events.",
        figure=Curves(
            "A consumer was away and caught up: a spike by arrival, none by event time",
            {
                name.removeprefix("the same messages, "): [(n * INTERVAL, float(c)) for n, c in enumerate(rate)]
                for name, rate in rates.items()
            },
            "s",
            f"events in {INTERVAL} s",
        ),
    )


def plan_times(random: Random) -> list[float]:
    """Plan when the events happen: at an even rate, though not regularly."""
    every = SECONDS / EVENTS
    return sorted(min(SECONDS - every, every * (number + random.random() * 3)) for number in range(EVENTS))


def count(times: Iterable[float]) -> list[int]:
    """Count the events in each interval, from the first one on."""
    counts = Counter(int(at / INTERVAL) for at in times)
    return [counts[number] for number in range(max(counts) + 1)]


def count_alarms(rate: Sequence[int]) -> int:
    return sum(number > ALARM for number in rate)
