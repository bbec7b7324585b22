"""Payments by cards, of which some tell a story; and whoever looks for three failures and then a success."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

import duckdb
import pyarrow as pa

WITHIN: Final = 300.0
"""Seconds in which all four payments are."""
LATEST: Final = 60.0
"""A payment comes less than so long after it was made."""
OF_STORY: Final = 4
"""So many cards have each story."""
SHOPS: Final = 12

OF_WINDOWS: Final = """
    SELECT card FROM payments GROUP BY card, floor(second / $within)
    HAVING count(*) FILTER (NOT is_paid) >= 3 AND bool_or(is_paid)
"""
OF_ALL: Final = """
    SELECT card FROM payments
    WINDOW before AS (PARTITION BY card ORDER BY second ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)
    QUALIFY is_paid AND count(*) FILTER (NOT is_paid) OVER before = 3 AND second - min(second) OVER before <= $within
"""


@dataclass(frozen=True, slots=True)
class CardPayment:
    """Somebody tries to pay."""

    card: str
    shop: str
    at: float
    is_paid: bool


@dataclass(frozen=True, slots=True)
class Story:
    """The payments of a card: of each the seconds since the one before, if it was paid, and how much later it came.

    `start`: when the first one is, in a window of five minutes.
    """

    name: str
    start: float
    payments: tuple[tuple[float, bool, float], ...]


FAILED, PAID = False, True
STORIES: Final = (
    Story("within one window", 20, ((0, FAILED, 0), (30, FAILED, 0), (30, FAILED, 0), (40, PAID, 0))),
    Story("across two windows", 190, ((0, FAILED, 0), (40, FAILED, 0), (40, FAILED, 0), (60, PAID, 0))),
    Story("a failure comes late", 60, ((0, FAILED, 0), (9, FAILED, 55), (9, FAILED, 0), (9, PAID, 0))),
    Story("no: the success comes late", 60, ((0, FAILED, 0), (9, FAILED, 0), (9, PAID, 55), (9, FAILED, 0))),
    Story("no: a success in between", 60, ((0, FAILED, 0), (40, PAID, 0), (40, FAILED, 0), (40, FAILED, 0))),
    Story("no: too slow", 60, ((0, FAILED, 0), (110, FAILED, 0), (110, FAILED, 0), (110, PAID, 0))),
)


def plan_payments(random: Random) -> list[tuple[float, CardPayment]]:
    """Plan the payments of all stories, a card each, with the time when each comes; in that order."""
    coming = []
    cards = [f"card {number}" for number in range(len(STORIES) * OF_STORY)]
    random.shuffle(cards)
    for number, card in enumerate(cards):
        story = STORIES[number % len(STORIES)]
        start = WITHIN * random.randint(1, 10) + story.start + random.uniform(0, 9)
        # long before, and in the same shop
        coming.append((start - WITHIN, CardPayment(card, "shop 0", start - WITHIN, PAID)))
        times = accumulate((wait * random.uniform(0.9, 1.1) for wait, _, _ in story.payments), initial=start)
        for at, (_, is_paid, delay) in zip([*times][1:], story.payments, strict=True):
            coming.append((at + delay, CardPayment(card, f"shop {random.randrange(SHOPS)}", at, is_paid)))
    return sorted(coming, key=lambda each: each[0])


def match_in_order(payments: Iterable[CardPayment]) -> set[str]:
    """The cards whose last three payments had failed when one is paid; remembers three payments of each."""
    last: defaultdict[str, deque[CardPayment]] = defaultdict(lambda: deque(maxlen=3))
    found = set()
    for payment in payments:
        before = last[payment.card]
        failed = [each for each in before if not each.is_paid and payment.at - WITHIN <= each.at]
        if payment.is_paid and len(failed) == 3:
            found.add(payment.card)
        before.append(payment)
    return found


def wait_for_late(payments: Iterable[CardPayment]) -> Iterator[CardPayment]:
    """Bring what comes in one partition into the order of its times: each is kept until none before it can come."""
    kept: list[CardPayment] = []
    newest = 0.0
    for payment in payments:
        kept = sorted([*kept, payment], key=lambda each: each.at)
        newest = max(newest, payment.at)
        while kept[0].at < newest - LATEST:
            yield kept.pop(0)
    yield from kept


def ask_windows(payments: Sequence[CardPayment]) -> set[str]:
    """Ask each window of five minutes: three failures and a success?"""
    return _ask(payments, OF_WINDOWS)


def ask_all(payments: Sequence[CardPayment]) -> set[str]:
    """The right answer: ask all payments of each card, when all have come."""
    return _ask(payments, OF_ALL)


def _ask(payments: Sequence[CardPayment], query: str) -> set[str]:
    rows = [{"card": each.card, "second": each.at, "is_paid": each.is_paid} for each in payments]
    with duckdb.connect() as database:
        database.register("payments", pa.Table.from_pylist(rows))
        return {card for (card,) in database.execute(query, {"within": WITHIN}).fetchall()}
