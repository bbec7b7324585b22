"""A pattern in events: three failed payments of a card, then a success, all within five minutes.

It has an order, so all of a card must come in one partition, and in the order of event time. A query of fixed windows
misses what lies across two of them, and sees no order.
"""

from typing import Final

from cdc.core.plural import format_count
from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import read_whole
from cdc.lab.streams.events import decode, publish
from cdc.lab.streams.payments import (
    STORIES,
    WITHIN,
    CardPayment,
    ask_all,
    ask_windows,
    match_in_order,
    plan_payments,
    wait_for_late,
)
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

PARTITIONS: Final = 3


def run(place: Workplace) -> Findings:
    payments = [payment for _, payment in plan_payments(place.random)]
    by_shop, by_card = place.topic("by-shop", PARTITIONS), place.topic("by-card", PARTITIONS)
    publish(place, by_shop, payments, lambda payment: payment.shop)
    publish(place, by_card, payments, lambda payment: payment.card)
    mixed = [payment for _, payment in _read(place, by_shop)]
    read = _read(place, by_card)
    cards = [[payment for partition, payment in read if partition == number] for number in range(PARTITIONS)]
    found = {
        "as they come, keyed by shop": match_in_order(mixed),
        "as they come, keyed by card": {card for each in cards for card in match_in_order(each)},
        "a query of each five minutes": ask_windows([payment for _, payment in read]),
        "by event time, keyed by card": {c for each in cards for c in match_in_order(wait_for_late(each))},
    }
    right = ask_all(payments)
    rows = [(name, len(right), len(f & right), len(right - f), len(f - right)) for name, f in found.items()]
    shop, card, query, event_time = rows
    return Findings(
        columns=("way", "patterns", "found", "missed", "false alarms"),
        rows=tuple(rows),
        sentence=f"Of {len(right)} patterns {shop[3]} are missed when payments are keyed by shop"
        f" ({format_count(shop[4], 'false alarm')}), {card[3]} when keyed by card, as late ones are out of order"
        f" ({card[4]}), {query[3]} by a query of fixed windows ({query[4]}), {event_time[3]} by card and event time"
        f" ({event_time[4]}).",
        figure=_draw(),
    )


def _read(place: Workplace, topic: str) -> list[tuple[int, CardPayment]]:
    """The payments as a consumer gets them, each with its partition."""
    return [(each.partition, decode(each, CardPayment)) for each in read_whole(place.consumer(), topic)]


def _draw() -> Timeline:
    """Draw each story, from the beginning of a window of the query."""
    events = []
    for story in STORIES:
        at = story.start
        for wait, is_paid, delay in story.payments:
            at += wait
            events.append(
                Event(story.name, at, "late" if delay else "", Tone.GOOD if is_paid else Tone.BAD, not is_paid)
            )
    windows = [Span("windows of the query", n * WITHIN, (n + 1) * WITHIN, "five minutes", Tone.QUIET) for n in (0, 1)]
    lanes = (*(story.name for story in STORIES), "windows of the query")
    title = "Three failures (red) and then a success (green) within five minutes? The stories of the cards"
    return Timeline(title, lanes, events=tuple(events), spans=tuple(windows), unit="s")


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Uses of Stream Processing", "Complex event processing"),
        Passage(SECOND, "Uses of Stream Processing", "Complex event processing"),
    ),
    files=("sinks/percolator/follower.py", "cdc/log/whole_transactions.py", "cdc/views/TIME.md"),
    parts=(Service.KAFKA,),
    run=run,
)
