"""Plans the writes of the two racing clients, the same for a seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from random import Random
from typing import Final

LONGEST_PAUSE: Final = 0.004
"""Longest pause of a client before each write, in seconds: for other work, or another way through the network."""
FAILURES_EVERY: Final = 40
"""One partial failure per so many pairs; at least two, one of each kind."""


class Store(StrEnum):
    """The stores, in a client's order: the database first, and the index when that has answered."""

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

FIGURE: Final = (Step(1, Store.DATABASE), Step(2, Store.DATABASE), Step(2, Store.INDEX), Step(1, Store.INDEX))
"""The order of figure 11-4 in "Designing Data-Intensive Applications"."""


@dataclass(frozen=True, slots=True)
class ForcedPair:
    """A pair whose writes happen in this order on any machine. `values`: of client 1 and of client 2."""

    key: str
    values: tuple[str, str]
    order: Order


@dataclass(frozen=True, slots=True)
class RacedPair:
    """A pair that both clients begin at once, with the value and the two pauses of each."""

    key: str
    values: tuple[str, str]
    pauses: tuple[tuple[float, float], tuple[float, float]]


class Accident(StrEnum):
    """The failure between the two writes of one client."""

    INDEX_AWAY = "the database commits, then the index cannot be reached"
    DIED_BEFORE_COMMIT = "the index is written, then the client dies before its COMMIT"


@dataclass(frozen=True, slots=True)
class FailingWrite:
    """A key with `before` in both stores; a write of `after` then fails halfway."""

    key: str
    before: str
    after: str
    accident: Accident


@dataclass(frozen=True, slots=True)
class Schedule:
    """All planned writes; every one has its own key."""

    seed: int
    forced: tuple[ForcedPair, ...]
    raced: tuple[RacedPair, ...]
    failing: tuple[FailingWrite, ...]

    @property
    def pairs(self) -> list[str]:
        """The keys that two clients write."""
        return [pair.key for pair in self.forced] + [pair.key for pair in self.raced]


def plan_race(seed: int, pairs: int) -> Schedule:
    """Plan so many pairs: up to six forced ones, one per order and the figure's first; the others race."""
    random = Random(seed)  # noqa: S311
    others = [order for order in ORDERS if order != FIGURE]
    # after the figure's order, which always comes first, the seed decides
    random.shuffle(others)
    orders = [FIGURE, *others][:pairs]
    # the first pair has the names of the figure: X, A and B
    forced = [ForcedPair(f"X{n or ''}", (f"A{n or ''}", f"B{n or ''}"), order) for n, order in enumerate(orders)]
    raced = tuple(_plan_raced(n, random) for n in range(len(orders), pairs))
    failing = [_plan_failing(n, random) for n in range(max(len(Accident), pairs // FAILURES_EVERY))]
    return Schedule(seed, tuple(forced), raced, tuple(failing))


def is_diverging(order: Sequence[Step]) -> bool:
    """Does this order leave the value of one client in the database, and of the other one in the index?"""
    last = {step.store: step.client for step in order}
    return last[Store.DATABASE] != last[Store.INDEX]


def _plan_raced(number: int, random: Random) -> RacedPair:
    def pauses() -> tuple[float, float]:
        return random.uniform(0, LONGEST_PAUSE), random.uniform(0, LONGEST_PAUSE)

    return RacedPair(f"X{number}", (f"A{number}", f"B{number}"), (pauses(), pauses()))


def _plan_failing(number: int, random: Random) -> FailingWrite:
    # the first ones are one of each kind, whatever the seed is
    accident = tuple(Accident)[number] if number < len(Accident) else random.choice(tuple(Accident))
    return FailingWrite(f"Y{number}", f"A{number}", f"B{number}", accident)
