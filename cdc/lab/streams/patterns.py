"""A pattern in events: three failed payments of a card, then a success, all within five minutes.

It has an order, so all of a card must come in one partition, and in the order of event time. A query of fixed windows
misses a pattern that lies across two of them, and sees no order.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

import duckdb
import pyarrow as pa

from cdc.core.text.plural import format_count
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.messages import read_whole
from cdc.lab.workplace import Workplace

PARTITIONS: Final = 3
WITHIN: Final = 300.0  # seconds in which all four payments are
LATEST: Final = 60.0  # a payment comes less than so many seconds after it was made
OF_STORY: Final = 4  # so many cards have each story
SHOPS: Final = 12
OF_WINDOWS: Final = """
    SELECT card FROM payments GROUP BY card, floor("at" / $within)
    HAVING count(*) FILTER (NOT is_paid) >= 3 AND bool_or(is_paid)
"""
"""Asks each window of five minutes: three failures and a success?"""
OF_ALL: Final = """
    SELECT card FROM payments
    WINDOW before AS (PARTITION BY card ORDER BY "at" ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)
    QUALIFY is_paid AND count(*) FILTER (NOT is_paid) OVER before = 3 AND "at" - min("at") OVER before <= $within
"""
"""The right answer: asks all payments of each card, when all have come."""


@dataclass(frozen=True)
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


def plan_payments(random: Random) -> list[CardPayment]:
    """Plan the payments of all stories, a card each, in the order in which they come."""
    coming: list[tuple[float, CardPayment]] = []
    cards = [f"card {number}" for number in range(len(STORIES) * OF_STORY)]
    random.shuffle(cards)
    for number, card in enumerate(cards):
        story = STORIES[number % len(STORIES)]
        start = WITHIN * random.randint(1, 10) + story.start + random.uniform(0, 9)
        # long before, and in the same shop
        coming.append((start - WITHIN, CardPayment(card, "shop 0", start - WITHIN, PAID)))
        # none so much quicker that the slow story comes within five minutes
        times = accumulate((wait * random.uniform(0.92, 1.1) for wait, _, _ in story.payments), initial=start)
        for at, (_, is_paid, delay) in zip([*times][1:], story.payments, strict=True):
            coming.append((at + delay, CardPayment(card, f"shop {random.randrange(SHOPS)}", at, is_paid)))
    return [payment for _, payment in sorted(coming, key=lambda each: each[0])]


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
    """Bring the payments of one partition into the order of their times: each is kept until none before it can come."""
    kept: list[CardPayment] = []
    newest = 0.0
    for payment in payments:
        kept = sorted([*kept, payment], key=lambda each: each.at)
        newest = max(newest, payment.at)
        while kept[0].at < newest - LATEST:
            yield kept.pop(0)
    yield from kept


def ask(payments: Sequence[CardPayment], query: str) -> set[str]:
    with duckdb.connect() as database:
        database.register("payments", pa.Table.from_pylist([vars(each) for each in payments]))
        return {card for (card,) in database.execute(query, {"within": WITHIN}).fetchall()}


def run(place: Workplace) -> Findings:
    planned = plan_payments(place.random)
    by_shop, by_card = place.topic("by-shop", PARTITIONS), place.topic("by-card", PARTITIONS)
    place.publish(by_shop, planned, key=lambda payment: payment.shop)
    place.publish(by_card, planned, key=lambda payment: payment.card)
    cards: list[list[CardPayment]] = [[] for _ in range(PARTITIONS)]
    for message in read_whole(place.consumer(), by_card):
        cards[message.partition].append(message.decode(CardPayment))
    found = {
        "as they come, keyed by shop": match_in_order(place.read(by_shop, CardPayment)),
        "as they come, keyed by card": {card for each in cards for card in match_in_order(each)},
        "a query of each five minutes": ask([payment for each in cards for payment in each], OF_WINDOWS),
        "by event time, keyed by card": {card for each in cards for card in match_in_order(wait_for_late(each))},
    }
    right = ask(planned, OF_ALL)
    rows = [(name, len(right), len(f & right), len(right - f), len(f - right)) for name, f in found.items()]
    shop, card, query, event_time = rows
    return Findings(
        columns=("way", "patterns", "found", "missed", "false alarms"),
        rows=rows,
        sentence=f"Of {len(right)} patterns {shop[3]} are missed when payments are keyed by shop"
        f" ({format_count(shop[4], 'false alarm')}), {card[3]} when keyed by card, as late ones are out of order"
        f" ({card[4]}), {query[3]} by a query of fixed windows ({query[4]}), {event_time[3]} by card and event time"
        f" ({event_time[4]}).",
        figure=_draw(),
    )


def _draw() -> Timeline:
    """Draw each story, from the beginning of a window of the query."""
    events = []
    for story in STORIES:
        at = story.start
        for wait, is_paid, delay in story.payments:
            at += wait
            tone = Tone.GOOD if is_paid else Tone.BAD
            events.append(Event(story.name, at, "late" if delay else "", tone, not is_paid))
    windows = [Span("windows of the query", n * WITHIN, (n + 1) * WITHIN, "five minutes", Tone.QUIET) for n in (0, 1)]
    title = "Three failures (red) and then a success (green) within five minutes? The stories of the cards"
    return Timeline(title, [*(story.name for story in STORIES), "windows of the query"], events, windows, unit="s")
