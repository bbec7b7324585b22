"""One log, three read models of it, each laid out for one question; a client that asks at once misses its own write.

A model is behind the log by the orders that it has not taken in yet. The client knows the offset of its order: if it
waits until a model has come so far, it finds it.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event as Signal
from threading import Lock
from typing import Any, Final, NamedTuple

from kafka import TopicPartition

from cdc.lab.derived.models import NotedOrder, OrdersFile, OrdersIndex, OrdersTable, ReadModel
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.messages import encode, take
from cdc.lab.waiting import in_background, read_clock, wait_for
from cdc.lab.workplace import Workplace

ORDERS: Final = 30
HELD_UP: Final = 10
"""So many orders are written and asked for while every model is still busy; with the others, it is as it happens."""
COUNTRIES: Final = ("AT", "BR", "DE")


class OwnRead(NamedTuple):
    """The answers of a model to who had written an order: at once, and after the wait for its offset. Times: ms."""

    model: str
    began: float
    written: float
    asked: float
    has_missed: bool
    shown: float
    asked_again: float
    has_missed_again: bool


class ModelFollower:
    """Reads the log for one model. `applied`: the offsets up to which it has come, each with its time.

    `batch` is held while orders are taken in; who holds it meanwhile holds up the model.
    """

    def __init__(self, model: ReadModel, consumer: Any) -> None:
        self.model, self.batch = model, Lock()
        self.applied: list[tuple[int, float]] = [(0, 0.0)]
        self._consumer = consumer

    def has(self, offset: int) -> bool:
        return self.applied[-1][0] > offset

    def follow(self, is_over: Signal) -> None:
        while not is_over.is_set():
            messages = take(self._consumer)
            with self.batch:
                if messages:
                    self.model.apply([message.decode(NotedOrder) for message in messages])
                    self.applied.append((messages[-1].offset + 1, read_clock()))


def run(place: Workplace) -> Findings:
    orders, held_up = plan_orders(place.random)
    topic, producer, dsn = place.topic("orders"), place.producer(), place.database("cqrs")
    models: tuple[ReadModel, ...] = (
        OrdersTable(place.session(dsn), place.session(dsn)),
        OrdersIndex(place.search, place.index("cqrs")),
        OrdersFile(Path(place.keep(TemporaryDirectory()))),
    )
    followers = [ModelFollower(model, place.consumer(TopicPartition(topic, 0))) for model in models]
    with in_background([follower.follow for follower in followers]):
        place.say(f"a client writes {ORDERS} orders to the log, and asks each model for its own")
        reads = [_write_and_ask(producer, topic, order, followers, order.number in held_up) for order in orders]
    rows = [
        (model.name, model.question, *count_missed(found), round(measure_lag(found)), model.add_up())
        for model, found in zip(models, zip(*reads, strict=True), strict=True)
    ]
    missed, missed_again = (sum(int(row[number]) for row in rows) for number in (3, 4))
    revenues = {row[6] for row in rows}
    return Findings(
        columns=("model", "its question", "asked", "missed at once", "missed after the wait", "ms behind", "revenue"),
        rows=rows,
        sentence=f"Of {ORDERS * len(models)} questions of a client for its own order {missed} were answered without it"
        f" when it asked at once, {missed_again} when it had waited for its offset; at the end of the log"
        f" the sums of the {len(models)} models are {'equal' if len(revenues) == 1 else 'not equal'}.",
        figure=_draw(next(read for read, order in zip(reads, orders, strict=True) if order.number in held_up)),
    )


def plan_orders(random: Random) -> tuple[list[NotedOrder], set[int]]:
    """Plan orders, and those that are asked for while every model is busy with those before."""
    revenue, orders = dict.fromkeys(COUNTRIES, 0), []
    for number in range(ORDERS):
        country, cents = random.choice(COUNTRIES), random.randint(100, 99_999)
        revenue[country] += cents
        orders.append(NotedOrder(number, country, cents, revenue[country], f"word{number}"))
    return orders, set(random.sample(range(ORDERS), HELD_UP))


def count_missed(reads: Sequence[OwnRead]) -> tuple[int, int, int]:
    """Questions, and how many were answered without the order at once, and after the wait."""
    return len(reads), sum(read.has_missed for read in reads), sum(read.has_missed_again for read in reads)


def measure_lag(reads: Sequence[OwnRead]) -> float:
    """How long after its writing an order is shown: the median."""
    return median(read.shown - read.written for read in reads)


def _write_and_ask(
    producer: Any, topic: str, order: NotedOrder, followers: Sequence[ModelFollower], is_held_up: bool
) -> list[OwnRead]:
    """Write an order, and ask each model for it: at once, then when it has come to its offset."""
    with ExitStack() as busy:
        for follower in followers if is_held_up else ():
            busy.enter_context(follower.batch)
        began = read_clock()
        offset = producer.send(topic, value=encode(order)).get(60).offset
        written = read_clock()
        firsts = [(read_clock(), not follower.model.shows(order)) for follower in followers]
    reads = []
    for follower, first in zip(followers, firsts, strict=True):
        wait_for(partial(follower.has, offset), f"an order in the {follower.model.name}")
        again = read_clock()
        shown = next(at for position, at in follower.applied if position > offset)
        missed_again = not follower.model.shows(order)
        reads.append(OwnRead(follower.model.name, began, written, *first, shown, again, missed_again))
    return reads


def _draw(reads: Sequence[OwnRead]) -> Timeline:
    """Draw one order: when it was asked for in vain, when each model had it, and when it was found."""
    write = Arrow("client", reads[0].began, "log", reads[0].written, "writes")
    asks = [Arrow("client", read.asked, read.model, read.asked, "", Tone.BAD) for read in reads]
    finds = [Arrow("client", read.asked_again, read.model, read.asked_again, "", Tone.GOOD) for read in reads]
    return Timeline(
        "A client asks for what it has written: at once (red), and when the model has come so far (green)",
        ("log", "client", *(read.model for read in reads)),
        [Event(read.model, read.shown, "has it", Tone.GOOD) for read in reads],
        arrows=(write, *asks, *finds),
    )
