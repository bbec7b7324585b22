"""A producer sends to a consumer that is away for a while: by datagrams, by webhooks, and through a log."""

import time
from bisect import bisect
from random import Random
from typing import Final, NamedTuple

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.logs.channels import Channel, Datagrams, RememberingWebhook, ThroughLog, Webhook
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

EVENTS: Final = 120
BETWEEN_SECONDS: Final = 0.004
DRAWN: Final = 24  # so many events of a way are drawn


class Delivery(NamedTuple):
    """One way. `sent` and `received`: the time of each event; `refused`: so many the producer heard of."""

    sent: dict[str, float]
    received: dict[str, float]
    refused: int
    away: tuple[float, float]

    @property
    def lost(self) -> int:
        return len(self.sent.keys() - self.received.keys())


def run(place: Workplace) -> Findings:
    goes, returns = plan_absence(place.random)
    place.say(f"{EVENTS} events; the consumer is away for {returns - goes} of them")
    ways: dict[str, Channel] = {
        "UDP": Datagrams(place),
        "webhook": Webhook(place),
        "webhook, sent again": RememberingWebhook(place),
        "log": ThroughLog(place),
    }
    found = {name: deliver(channel, goes, returns) for name, channel in ways.items()}
    lost = {name: each.lost for name, each in found.items()}
    return Findings(
        columns=("way", "sent", "received", "lost", "refused", "kept by the producer"),
        rows=[
            (name, EVENTS, len(each.received), each.lost, each.refused, getattr(ways[name], "most_kept", 0))
            for name, each in found.items()
        ],
        sentence=f"While the consumer was away UDP lost {lost['UDP']} events and told nobody, webhooks lost"
        f" {lost['webhook']} unless the producer kept them itself; the log kept them and lost {lost['log']}.",
        figure=_draw(found),
    )


def plan_absence(random: Random) -> tuple[int, int]:
    """Plan the events before which the consumer goes and is back: some, from about a third of all on."""
    goes = random.randint(EVENTS // 4, EVENTS // 3)
    return goes, goes + random.randint(EVENTS // 4, EVENTS // 3)


def deliver(channel: Channel, goes: int, returns: int) -> Delivery:
    """Send all events, while the consumer goes and comes; returns when the last one has arrived."""
    sent, received = dict[str, float](), dict[str, float]()

    def receive(event: str) -> None:
        received[event] = time.monotonic()

    def send(first: int, end: int) -> int:
        refused = 0
        for event in map(str, range(first, end)):
            sent[event] = time.monotonic()
            refused += not channel.send(event)
            # events come one after the other, not all at once
            time.sleep(BETWEEN_SECONDS)
        return refused

    def settle(end: int) -> None:
        # the newest is the last: none of these ways lets one overtake another
        wait_for(lambda: str(end - 1) in received, "the newest event")

    with channel.come(receive):
        refused = send(0, goes)
        settle(goes)
    left = time.monotonic()
    refused += send(goes, returns)
    with channel.come(receive):
        came = time.monotonic()
        refused += send(returns, EVENTS)
        settle(EVENTS)
    return Delivery(sent, received, refused, (left, came))


def _draw(found: dict[str, Delivery]) -> Timeline:
    """Draw some of the events. The clock counts the events sent: the ways are not equally fast."""
    events: list[Event] = []
    spans: list[Span] = []
    for name, each in found.items():
        clock = sorted(each.sent.values())
        goes, returns = (bisect(clock, at) for at in each.away)
        spans.append(Span(name, goes, returns, tone=Tone.QUIET))
        for event in list(each.sent)[:: EVENTS // DRAWN]:
            lost = event not in each.received
            at = bisect(clock, each.sent[event] if lost else each.received[event])
            events.append(Event(name, at, "", Tone.BAD if lost else Tone.GOOD, lost))
    title = "Dots are events when they arrive, crosses never do; grey: the consumer is away"
    return Timeline(title, [*found], events, spans, unit="events sent")
