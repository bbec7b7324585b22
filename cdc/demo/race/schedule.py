"""Who writes what, and when: the race of two clients as values, the same for a seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from random import Random
from typing import Final

LONGEST_PAUSE: Final = 0.004
"""Seconds that a client lets pass at most before each of its writes: other work, another way through the network."""
FAILURES_EVERY: Final = 40
"""One partial failure for so many pairs, two at least: one of each kind."""


class Store(StrEnum):
    """Where a client writes, in its order: the database first, the index when that has answered."""

    DATABASE = "database"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Step:
    """One write of one client, 1 or 2."""

    client: int
    store: Store


Order = tuple[Step, ...]


def _orders() -> Iterator[Order]:
    for order in permutations(Step(client, store) for client in (1, 2) for store in Store):
        if all(order.index(Step(c, Store.DATABASE)) < order.index(Step(c, Store.INDEX)) for c in (1, 2)):
            yield order


ORDERS: Final = tuple(_orders())
"""The six orders in which the four writes of a pair can happen."""

FIGURE: Final = (
    Step(1, Store.DATABASE),
    Step(2, Store.DATABASE),
    Step(2, Store.INDEX),
    Step(1, Store.INDEX),
)
"""The order of figure 11-4 in "Designing Data-Intensive Applications"."""


@dataclass(frozen=True, slots=True)
class Forced:
    """A pair whose writes happen in this order, whatever the machine does: client 1's value, client 2's."""

    key: str
    values: tuple[str, str]
    order: Order


@dataclass(frozen=True, slots=True)
class Raced:
    """A pair that both clients begin at once: their values, and their pauses before each of the two writes."""

    key: str
    values: tuple[str, str]
    pauses: tuple[tuple[float, float], tuple[float, float]]


class Accident(StrEnum):
    """What happens between the two writes of one client."""

    INDEX_AWAY = "the database commits, then the index cannot be reached"
    DIED_BEFORE_COMMIT = "the index is written, then the client dies before its COMMIT"


@dataclass(frozen=True, slots=True)
class Failing:
    """A key that holds `before` in both stores when a write of `after` fails halfway."""

    key: str
    before: str
    after: str
    accident: Accident


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that is written, under keys of their own."""

    forced: tuple[Forced, ...]
    raced: tuple[Raced, ...]
    failing: tuple[Failing, ...]

    @property
    def pairs(self) -> list[str]:
        """The keys that two clients write."""
        return [each.key for each in self.forced] + [each.key for each in self.raced]


def schedule(seed: int, pairs: int) -> Schedule:
    """So many pairs, the first (up to six, one an order, the figure's first) forced, the others raced."""
    random = Random(seed)  # noqa: S311
    others = [order for order in ORDERS if order != FIGURE]
    random.shuffle(others)
    orders = [FIGURE, *others][:pairs]
    forced = [Forced("X", ("A", "B"), order) if n == 0 else _forced(n, order) for n, order in enumerate(orders)]
    raced = tuple(_raced(n, random) for n in range(len(orders), pairs))
    failing = [_failing(n, random) for n in range(max(len(Accident), pairs // FAILURES_EVERY))]
    return Schedule(tuple(forced), raced, tuple(failing))


def ends_apart(order: Sequence[Step]) -> bool:
    """Does this order leave one client's value in the database and the other's in the index?"""
    last = {step.store: step.client for step in order}
    return last[Store.DATABASE] != last[Store.INDEX]


def _forced(number: int, order: Order) -> Forced:
    return Forced(f"X{number}", (f"A{number}", f"B{number}"), order)


def _raced(number: int, random: Random) -> Raced:
    def pauses() -> tuple[float, float]:
        return random.uniform(0, LONGEST_PAUSE), random.uniform(0, LONGEST_PAUSE)

    return Raced(f"X{number}", (f"A{number}", f"B{number}"), (pauses(), pauses()))


def _failing(number: int, random: Random) -> Failing:
    accident = tuple(Accident)[number] if number < len(Accident) else random.choice(tuple(Accident))
    return Failing(f"Y{number}", f"A{number}", f"B{number}", accident)
