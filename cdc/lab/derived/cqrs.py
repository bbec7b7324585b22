"""One log, three read models of it, each laid out for one question; a client that asks at once misses its own write.

A model is behind the log by what it has not taken in yet. The client knows the offset of what it has written: if it
waits until a model has come so far, it finds it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event as Signal
from typing import Any, Final

import psycopg
from opensearchpy import OpenSearch

from cdc.lab.book import FIRST, SECOND, SECOND_MODELS, Passage
from cdc.lab.derived.models import ModelFollower, NotedOrder, OrdersFile, OrdersIndex, OrdersTable, ReadModel
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

ORDERS: Final = 30
HELD_UP: Final = 10
"""So many orders are written and asked for while every model is still busy; with the others, it is as it happens."""
COUNTRIES: Final = ("AT", "BR", "DE")


@dataclass(frozen=True, slots=True)
class OwnRead:
    """How a model answered who had written an order: at once, and after the wait for its offset. Times are in ms."""

    model: str
    began: float
    written: float
    asked: float
    has_missed: bool
    shown: float
    asked_again: float
    has_missed_again: bool


def run(place: Workplace) -> Findings:
    orders, held_up = plan_orders(place.random)
    topic, models = place.topic("orders"), _open_models(place)
    producer = place.producer()
    with _keep_up(place, topic, models) as followers:
        place.say(f"a client writes {ORDERS} orders to the log, and asks each model for its own")
        reads = [_write_and_ask(producer, topic, order, followers, order.number in held_up) for order in orders]
    of_model = [[read[number] for read in reads] for number in range(len(models))]
    rows = [
        (model.name, model.question, *count_missed(found), round(measure_lag(found)), model.add_up())
        for model, found in zip(models, of_model, strict=True)
    ]
    missed, missed_again = (sum(int(row[number]) for row in rows) for number in (3, 4))
    revenues = {row[6] for row in rows}
    return Findings(
        columns=("model", "its question", "asked", "missed at once", "missed after the wait", "ms behind", "revenue"),
        rows=tuple(rows),
        sentence=f"Of {ORDERS * len(models)} questions of a client for its own order {missed} were answered without it"
        f" when it asked at once, {missed_again} when it had waited for its offset; at the end of the log"
        f" the sums of the {len(models)} models are {'equal' if len(revenues) == 1 else 'not equal'}.",
        figure=_draw(next(read for read, order in zip(reads, orders, strict=True) if order.number in held_up)),
    )


def plan_orders(random: Random) -> tuple[list[NotedOrder], set[int]]:
    """Plan orders, and those that are asked for while every model is busy with what was before."""
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


def _open_models(place: Workplace) -> list[ReadModel]:
    dsn = place.database("cqrs")
    sessions = [place.keep(psycopg.connect(dsn, autocommit=True)) for _ in range(2)]
    client = place.keep(OpenSearch(hosts=[place.parts.search_url], timeout=60))
    folder = Path(place.keep(TemporaryDirectory()))
    return [OrdersTable(sessions[0], sessions[1]), OrdersIndex(client, place.index("cqrs")), OrdersFile(folder)]


@contextmanager
def _keep_up(place: Workplace, topic: str, models: Sequence[ReadModel]) -> Iterator[list[ModelFollower]]:
    """Let a follower keep up each model meanwhile."""
    stopping = Signal()
    followers = [ModelFollower(model, place.consumer(), topic, stopping) for model in models]
    for follower in followers:
        follower.start()
    try:
        yield followers
    finally:
        stopping.set()
        for follower in followers:
            follower.join()


def _write_and_ask(
    producer: Any, topic: str, order: NotedOrder, followers: Sequence[ModelFollower], is_held_up: bool
) -> list[OwnRead]:
    """Write an order, and ask each model for it: at once, then when it has come to its offset."""
    with ExitStack() as busy:
        for follower in followers if is_held_up else ():
            busy.enter_context(follower.batch)
        began = _read_clock()
        offset = producer.send(topic, value=order.as_text()).get(60).offset
        written = _read_clock()
        firsts = [(_read_clock(), not follower.model.shows(order)) for follower in followers]
    reads = []
    for follower, (asked, has_missed) in zip(followers, firsts, strict=True):
        wait_for(partial(follower.has, offset), f"an order in the {follower.model.name}")
        again = _read_clock()
        shown = next(at for position, at in follower.applied if position > offset)
        missed_again = not follower.model.shows(order)
        reads.append(OwnRead(follower.model.name, began, written, asked, has_missed, shown * 1000, again, missed_again))
    return reads


def _draw(reads: Sequence[OwnRead]) -> Timeline:
    """Draw one order: when it was asked for in vain, when each model had it, and when it was found."""
    write = Arrow("client", reads[0].began, "log", reads[0].written, "writes")
    asks = [Arrow("client", read.asked, read.model, read.asked, "", Tone.BAD) for read in reads]
    finds = [Arrow("client", read.asked_again, read.model, read.asked_again, "", Tone.GOOD) for read in reads]
    return Timeline(
        "A client asks for what it has written: at once (red), and when the model has come so far (green)",
        ("log", "client", *(read.model for read in reads)),
        events=tuple(Event(read.model, read.shown, "has it", Tone.GOOD) for read in reads),
        arrows=(write, *asks, *finds),
    )


def _read_clock() -> float:
    return time.monotonic() * 1000


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "State, Streams, and Immutability", "Deriving several views from the same event log"),
        Passage(FIRST, "State, Streams, and Immutability", "Concurrency control"),
        Passage(SECOND, "State, Streams, and Immutability", "Deriving several views from the same event log"),
        Passage(SECOND_MODELS, "Event Sourcing and CQRS"),
    ),
    files=("cdc/run/read/tokens.py", "cdc/programs.py", "cdc/cli/wait.py"),
    parts=(Service.KAFKA, Service.POSTGRES, Service.SEARCH),
    run=run,
)
