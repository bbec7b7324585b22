"""Two workers share messages: through a queue with acknowledgements, and through a log with two partitions.

A worker dies over one message, which is then given to another, or to itself when it is back; another message takes
long. The queue is a table in Postgres: a worker locks a row that nobody else has locked, and deletes it when done.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple

import psycopg
from kafka import TopicPartition

from cdc.core.waiting import wait_until
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.messages import take
from cdc.lab.temporary import open_consumer
from cdc.lab.waiting import run_at_once
from cdc.lab.workplace import Workplace

WORKERS: Final = ("worker 1", "worker 2")
DRAWN: Final = 7
_TAKE: Final = """
    DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id
"""
MESSAGES: Final = 32
KEYS: Final = 4
USUAL_SECONDS: Final = 0.002  # how long a message takes its worker
SLOW_SECONDS: Final = 2.0
DYING_SECONDS: Final = 2.0  # how long a worker that will die has its message, unless another one overtakes it before


class DiedError(Exception):
    """The worker's process is gone, in the middle of a message."""


class WorkPlan(NamedTuple):
    """The key of each message; at which one its first worker dies, and which one takes long."""

    keys: tuple[int, ...]
    deadly: int
    slow: int


class Handling(NamedTuple):
    """A message in the hands of a worker; `done` is False when the worker died over it."""

    worker: str
    number: int
    start: float
    end: float
    done: bool


def plan_work(random: Random) -> WorkPlan:
    """Plan messages: the deadly one comes early, and the two behind it have its key; the slow one comes later."""
    keys = [random.randrange(KEYS) for _ in range(MESSAGES)]
    deadly = random.randrange(2, 6)
    keys[deadly + 1] = keys[deadly + 2] = keys[deadly]
    return WorkPlan(tuple(keys), deadly, random.randrange(deadly + 4, MESSAGES // 2))


class WorkDay:
    """All that the workers have done; several threads work at once."""

    def __init__(self, plan: WorkPlan) -> None:
        self._plan = plan
        self._has_died = False
        self.handled: list[Handling] = []

    @property
    def is_over(self) -> bool:
        """Is every message done?"""
        return len({each.number for each in list(self.handled) if each.done}) == MESSAGES

    def let_work(self, workers: Sequence[Callable[[], None]]) -> list[Handling]:
        """Let all work until every message is done; one that dies is started again. Returns all that they did."""

        def live(work: Callable[[], None]) -> None:
            while not self.is_over:
                try:
                    work()
                except DiedError:
                    continue

        run_at_once([partial(live, work) for work in workers])
        return self.handled

    def work(self, worker: str, number: int) -> None:
        """Handle a message. Raises DiedError at the deadly one, the first time."""
        start = time.monotonic()
        dies = number == self._plan.deadly and not self._has_died
        if dies:
            self._has_died = True
            wait_until(self._is_overtaken, DYING_SECONDS, every=0.001)
        else:
            # stands for the work on a message
            time.sleep(SLOW_SECONDS if number == self._plan.slow else USUAL_SECONDS)
        self.handled.append(Handling(worker, number, start, time.monotonic(), done=not dies))
        if dies:
            raise DiedError

    def _is_overtaken(self) -> bool:
        return any(each.done and each.number == self._plan.deadly + 1 for each in [*self.handled])


def count_overtaken(plan: WorkPlan, handled: Sequence[Handling]) -> int:
    """Count the messages that were done after a later message of the same key."""
    order = [each.number for each in sorted(handled, key=lambda each: each.end) if each.done]
    place = {number: at for at, number in enumerate(order)}

    def is_overtaken(number: int) -> bool:
        later = (other for other in range(number + 1, MESSAGES) if plan.keys[other] == plan.keys[number])
        return any(place[other] < place[number] for other in later)

    return sum(map(is_overtaken, range(MESSAGES)))


def count_held_up(plan: WorkPlan, handled: Sequence[Handling]) -> int:
    """Count the messages behind the slow one that no worker took before it was done."""
    done = {each.number: each for each in handled if each.done}
    return sum(done[number].start >= done[plan.slow].end for number in range(plan.slow + 1, MESSAGES))


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
        rows=rows,
        sentence=f"A queue hands the message of a dead worker to another after later ones: {overtaken} messages were"
        f" done out of order, through the log {kept}; but a slow message held up {free} others in the queue and {held}"
        " in the log, all that are behind it in its partition.",
        figure=_draw(plan, found),
    )


def _share_queue(place: Workplace, plan: WorkPlan) -> list[Handling]:
    """Let both workers take from the queue; whoever dies comes back with a new connection."""
    dsn, day = place.database("queue"), WorkDay(plan)
    place.session(dsn).execute("CREATE TABLE queue AS SELECT id FROM generate_series(0, %s) AS id", (MESSAGES - 1,))

    def work(worker: str) -> None:
        with psycopg.connect(dsn) as connection:
            while not day.is_over:
                if row := connection.execute(_TAKE).fetchone():
                    day.work(worker, int(row[0]))
                else:
                    # the other one has the last message: it may die, and its row come back
                    time.sleep(0.01)
                # the acknowledgement: until here the row is only locked, and comes back when the connection breaks
                connection.commit()

    return day.let_work([partial(work, worker) for worker in WORKERS])


def _share_log(place: Workplace, plan: WorkPlan) -> list[Handling]:
    """Give each worker one of two partitions, with all messages of a key in one of them."""
    topic, group, day = place.topic("queue", partitions=2), place.group("queue"), WorkDay(plan)
    place.publish(topic, range(MESSAGES), partition=lambda number: plan.keys[number] % 2)

    def work(partition: int) -> None:
        # begins at the group's committed offset: behind the last message that was done
        mine = TopicPartition(topic, partition)
        with open_consumer(place.bootstrap, mine, group_id=group) as consumer:
            while not day.is_over:
                for message in take(consumer, most=1):
                    day.work(WORKERS[partition], message.decode(int))
                    consumer.commit()

    return day.let_work([partial(work, partition) for partition in range(len(WORKERS))])


def _draw(plan: WorkPlan, found: dict[str, list[Handling]]) -> Timeline:
    """Draw the key of the deadly message, one thing after the other: seconds would hide short ones."""
    key = plan.keys[plan.deadly]
    drawn = [number for number in range(MESSAGES) if plan.keys[number] == key and number != plan.slow][:DRAWN]
    spans: list[Span] = []
    deaths: list[Event] = []
    for way, handled in found.items():
        shown = [each for each in handled if each.number in drawn]
        clock = sorted({time for each in shown for time in (each.start, each.end)})
        for each in shown:
            lane, start, end = f"{way}, {each.worker}", clock.index(each.start), clock.index(each.end)
            tone = Tone.BAD if each.number == plan.deadly else Tone.PLAIN
            spans.append(Span(lane, start, end, f"m{each.number}", tone))
            if not each.done:
                deaths.append(Event(lane, end, "dies", Tone.BAD, lost=True))
    again = "the queue gives it out again behind later ones, the log goes back to it"
    lanes = [f"{way}, {worker}" for way in found for worker in WORKERS]
    return Timeline(f"A worker dies over m{plan.deadly}: {again}", lanes, deaths, spans, unit="steps")
