"""A producer sends to a consumer that is away for a while: by datagrams, by webhooks, and through a log."""

import time
from bisect import bisect
from dataclasses import dataclass
from random import Random
from typing import Final

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.logs.channels import Channel, Datagrams, RememberingWebhook, ThroughLog, Webhook
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

EVENTS: Final = 120
BETWEEN_SECONDS: Final = 0.004
DRAWN: Final = 24
"""So many events of a way are drawn."""


@dataclass(frozen=True, slots=True)
class Absence:
    """The consumer goes before the event of the first number, and is back before that of the second."""

    goes: int
    returns: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of one way. `sent` and `received`: the time of each event; `refused`: those the producer heard of."""

    sent: dict[str, float]
    received: dict[str, float]
    refused: int
    kept: int
    away: tuple[float, float]

    @property
    def lost(self) -> int:
        return len(self.sent.keys() - self.received.keys())


def run(place: Workplace) -> Findings:
    absence = plan_absence(place.random)
    place.say(f"{EVENTS} events; the consumer is away for {absence.returns - absence.goes} of them")
    ways: dict[str, Channel] = {
        "UDP": Datagrams(place),
        "webhook": Webhook(place),
        "webhook, sent again": RememberingWebhook(place),
        "log": ThroughLog(place),
    }
    found = {name: deliver(channel, absence) for name, channel in ways.items()}
    rows = [(name, EVENTS, len(each.received), each.lost, each.refused, each.kept) for name, each in found.items()]
    lost = {name: each.lost for name, each in found.items()}
    return Findings(
        columns=("way", "sent", "received", "lost", "refused", "kept by the producer"),
        rows=tuple(rows),
        sentence=f"While the consumer was away UDP lost {lost['UDP']} events and told nobody, webhooks lost"
        f" {lost['webhook']} unless the producer kept them itself; the log kept them and lost {lost['log']}.",
        figure=_draw(found),
    )


def plan_absence(random: Random) -> Absence:
    """Plan when the consumer is away: some events from about a third of them on."""
    goes = random.randint(EVENTS // 4, EVENTS // 3)
    return Absence(goes, goes + random.randint(EVENTS // 4, EVENTS // 3))


def deliver(channel: Channel, absence: Absence) -> Delivery:
    """Send all events, while the consumer goes and comes; returns when the last one has arrived."""
    sent, received = dict[str, float](), dict[str, float]()
    refused, leaves, returns = 0, 0.0, 0.0

    def receive(event: str) -> None:
        received[event] = time.monotonic()

    channel.come(receive)
    for number in range(EVENTS):
        if number == absence.goes:
            _settle(received, number)
            channel.leave()
            leaves = time.monotonic()
        if number == absence.returns:
            channel.come(receive)
            returns = time.monotonic()
        sent[_name(number)] = time.monotonic()
        refused += not channel.send(_name(number))
        # events come one after the other, not all at once
        time.sleep(BETWEEN_SECONDS)
    _settle(received, EVENTS)
    channel.leave()
    return Delivery(sent, received, refused, getattr(channel, "most_kept", 0), (leaves, returns))


def _settle(received: dict[str, float], sent: int) -> None:
    """Wait until the newest event is there: none of these ways lets one overtake another."""
    wait_for(lambda: _name(sent - 1) in received, "the newest event")


def _name(number: int) -> str:
    return f"event {number}"


def _draw(found: dict[str, Delivery]) -> Timeline:
    """Draw what came of some of the events. The clock counts what is sent: the ways are not equally fast."""
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
    return Timeline(title, tuple(found), events=tuple(events), spans=tuple(spans), unit="events sent")


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Messaging Systems", "Direct messaging from producers to consumers"),
        Passage(SECOND, "Messaging Systems", "Direct messaging from producers to consumers"),
    ),
    files=("cdc/log/names.py", "cdc/log/whole_transactions.py"),
    parts=(Service.KAFKA,),
    run=run,
)
