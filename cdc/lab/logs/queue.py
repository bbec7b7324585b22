"""Two workers share messages: through a queue with acknowledgements, and through a log with two partitions.

A worker dies over one message, which is then given to another, or to itself when it is back; another message takes
long. The queue is a table in Postgres: a worker locks a row that nobody else has locked, and deletes it when done.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final

import psycopg
from kafka import TopicPartition

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.logs.work import (
    MESSAGES,
    DiedError,
    Handling,
    WorkDay,
    WorkPlan,
    count_held_up,
    count_overtaken,
    plan_work,
)
from cdc.lab.messages import take
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

WORKERS: Final = ("worker 1", "worker 2")
_TAKE: Final = """
    DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id
"""


def run(place: Workplace) -> Findings:
    plan = plan_work(place.random)
    place.say(f"{MESSAGES} messages; a worker dies over number {plan.deadly}, and number {plan.slow} takes long")
    found = {"queue": _share_queue(place, plan), "log": _share_log(place, plan)}
    rows = [
        (way, MESSAGES, len(handled), count_overtaken(plan, handled), count_held_up(plan, handled))
        for way, handled in found.items()
    ]
    (_, _, _, overtaken, free), (_, _, _, kept, held) = rows
    return Findings(
        columns=("way", "messages", "deliveries", "done after a later one of the same key", "held up by the slow one"),
        rows=tuple(rows),
        sentence=f"A queue hands what a dead worker had to another after later ones: {overtaken} messages were done"
        f" out of order, through the log {kept}; but a slow message held up {free} others in the queue and {held} in"
        " the log, all that are behind it in its partition.",
        figure=_draw(plan, found),
    )


def _share_queue(place: Workplace, plan: WorkPlan) -> list[Handling]:
    """Let both workers take from the queue; whoever dies comes back with a new connection."""
    dsn, day = place.database("queue"), WorkDay(plan)
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE queue AS SELECT id FROM generate_series(0, %s) AS id", (MESSAGES - 1,))
    _let_work([partial(_work_on_queue, dsn, day, worker) for worker in WORKERS], day)
    return day.handled


def _work_on_queue(dsn: str, day: WorkDay, worker: str) -> None:
    with psycopg.connect(dsn) as connection:
        while not day.is_over:
            if (row := connection.execute(_TAKE).fetchone()) is None:
                # the other one has the last message: it may die, and its row come back
                connection.rollback()
                time.sleep(0.01)
                continue
            day.work(worker, int(row[0]))
            # the acknowledgement: until here the row is only locked, and comes back when the connection breaks
            connection.commit()


def _share_log(place: Workplace, plan: WorkPlan) -> list[Handling]:
    """Give each worker one of two partitions, with all messages of a key in one of them."""
    topic, group, day = place.topic("queue", partitions=2), place.group("queue"), WorkDay(plan)
    producer = place.producer()
    for number, key in enumerate(plan.keys):
        producer.send(topic, key=str(key), value=str(number), partition=key % 2)
    producer.flush()
    opened = partial(place.consumer, group_id=group)
    jobs = [partial(_work_on_log, opened, TopicPartition(topic, p), day, name) for p, name in enumerate(WORKERS)]
    _let_work(jobs, day)
    return day.handled


def _work_on_log(opened: Callable[[], Any], partition: TopicPartition, day: WorkDay, worker: str) -> None:
    consumer = opened()
    # begins at the group's committed offset: behind the last message that was done
    consumer.assign([partition])
    try:
        while not day.is_over:
            for message in take(consumer, most=1):
                day.work(worker, int(str(message.value)))
                consumer.commit()
    finally:
        consumer.close(autocommit=False)


def _let_work(workers: Sequence[Callable[[], None]], day: WorkDay) -> None:
    """Let all work until every message is done; one that dies is started again."""

    def live(work: Callable[[], None]) -> None:
        while not day.is_over:
            try:
                work()
            except DiedError:
                continue

    with ThreadPoolExecutor(len(workers)) as threads:
        for done in [threads.submit(live, work) for work in workers]:
            done.result()


def _draw(plan: WorkPlan, found: dict[str, list[Handling]]) -> Timeline:
    """Draw both ways around the death, one thing after the other: seconds would hide what is short."""
    lanes = tuple(f"{way}, {worker}" for way in found for worker in WORKERS)
    drawn = {way: _near_death(plan, handled) for way, handled in found.items()}
    spans = chain.from_iterable(_draw_way(plan, way, handled) for way, handled in drawn.items())
    deaths = (
        Event(f"{way}, {each.worker}", _rank(handled)[each.end], "dies", Tone.BAD, lost=True)
        for way, handled in drawn.items()
        for each in handled
        if not each.done
    )
    title = (
        f"A worker dies over m{plan.deadly}: the queue gives it out again behind later ones, the log goes back to it"
    )
    return Timeline(title, lanes, events=tuple(deaths), spans=tuple(spans), unit="steps")


def _near_death(plan: WorkPlan, handled: list[Handling]) -> list[Handling]:
    """The deliveries that are drawn: those of the key of the deadly message, up to some behind it."""
    key = plan.keys[plan.deadly]
    numbers = [number for number in range(MESSAGES) if plan.keys[number] == key and number != plan.slow]
    return [each for each in handled if each.number in numbers[:7]]


def _draw_way(plan: WorkPlan, way: str, handled: list[Handling]) -> Iterator[Span]:
    rank = _rank(handled)
    for each in handled:
        tone = Tone.BAD if each.number == plan.deadly else Tone.PLAIN
        yield Span(f"{way}, {each.worker}", rank[each.start], rank[each.end], f"m{each.number}", tone)


def _rank(handled: list[Handling]) -> dict[float, int]:
    times = sorted({time for each in handled for time in (each.start, each.end)})
    return {time: place for place, time in enumerate(times)}


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Messaging Systems", "Acknowledgments and redelivery"),
        Passage(FIRST, "Partitioned Logs", "Logs compared to traditional messaging"),
        Passage(SECOND, "Messaging Systems", "Acknowledgments and redelivery"),
        Passage(SECOND, "Log-Based Message Brokers", "Logs compared to traditional messaging"),
    ),
    files=("cdc/log/whole_transactions.py", "cdc/run/follow/lake_stream.py"),
    parts=(Service.POSTGRES, Service.KAFKA),
    run=run,
)
