"""Fifty clients claim names: who decides in the order of one log gives each name to one client, without a lock.

Two deciders that read the same log decide alike; two that have logs of their own give names away twice.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple
from zlib import crc32

from kafka import TopicPartition

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.messages import encode, take_exactly
from cdc.lab.waiting import run_at_once
from cdc.lab.workplace import Workplace

CLIENTS: Final = 50
NAMES: Final = "abcdefghijkl"
ASK_AGAIN: Final = 12  # clients who are impatient, and send their claim again
DRAWN: Final = 20  # claims of a log


class Claim(NamedTuple):
    """A client wants a name."""

    client: int
    name: str


class Answer(NamedTuple):
    """A client is told; the claim lies in this partition at this offset."""

    client: int
    name: str
    is_granted: bool
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How claims are laid out: in how many logs, by their name or round-robin, and how many deciders read each."""

    logs: int = 1
    deciders: int = 1
    by_name: bool = False

    def choose_log(self, number: int, claim: Claim) -> int:
        return (crc32(claim.name.encode()) if self.by_name else number) % self.logs


LAYOUTS: Final = {
    "one log, one decider": Layout(),
    "one log, two deciders": Layout(deciders=2),
    "two logs by name, a decider each": Layout(logs=2, by_name=True),
    "two logs, round-robin, a decider each": Layout(logs=2),
}


def run(place: Workplace) -> Findings:
    claims = plan_claims(place.random)
    place.say(f"{CLIENTS} clients claim {len(NAMES)} names; {ASK_AGAIN} of the clients ask again: {len(claims)} claims")
    found = {way: _claim(place, f"claims-{n}", layout, claims) for n, (way, layout) in enumerate(LAYOUTS.items())}
    rows = [(way, len(claims), *count_owners(answers)) for way, answers in found.items()]
    least = min(row[2] for row in rows[:3])
    *_, doubled, both = rows[3]
    return Findings(
        columns=("way", "claims, repeats included", "names with one owner", "with two", "clients told yes and no"),
        rows=rows,
        sentence=f"With the claims of a name in two logs, {doubled} of {len(NAMES)} names have two owners, and {both}"
        f" clients hear yes and no; with all of a name in one log, {least} have one each, without a lock.",
        figure=_draw(found),
    )


def plan_claims(random: Random) -> list[Claim]:
    """Plan the claims in their order, and behind them those that are sent again. Each name is wanted."""
    names = [*NAMES, *NAMES, *(random.choice(NAMES) for _ in range(CLIENTS - 2 * len(NAMES)))]
    random.shuffle(names)
    # the first two clients want the same name, and the second of them asks again
    names[1] = names[0]
    first = [Claim(client, name) for client, name in enumerate(names)]
    return [*first, first[1], *random.sample(first[2:], ASK_AGAIN - 1)]


def count_owners(answers: Sequence[Answer]) -> tuple[int, int, int]:
    """Count the names that one client was given, those that two were given, and the clients who heard yes and no."""
    granted = {(answer.name, answer.client) for answer in answers if answer.is_granted}
    owners = Counter(name for name, _ in granted)
    refused = {(answer.name, answer.client) for answer in answers if not answer.is_granted}
    return [*owners.values()].count(1), sum(number > 1 for number in owners.values()), len(granted & refused)


def _claim(place: Workplace, topic: str, layout: Layout, claims: Sequence[Claim]) -> list[Answer]:
    """Let deciders answer while claims are sent; returns all that the clients are told."""
    log, told = place.topic(topic, layout.logs), place.topic(f"{topic}-answers")
    logs = [layout.choose_log(number, claim) for number, claim in enumerate(claims)]
    deciding: list[Callable[[], None]] = [
        partial(decide, place.consumer(TopicPartition(log, each)), place.producer(), told, logs.count(each))
        for each in sorted(set(logs)) * layout.deciders
    ]
    producer = place.producer()

    def send_all() -> None:
        for each, claim in zip(logs, claims, strict=True):
            producer.send(log, value=encode(claim), partition=each)

    run_at_once([*deciding, send_all])
    return place.read(told, Answer)


def decide(consumer: Any, producer: Any, told: str, number: int) -> None:
    """Answer so many claims: a name is granted to the client that is the first to claim it in this log."""
    owners: dict[str, int] = {}
    for _ in range(number):
        [message] = take_exactly(consumer, 1)
        claim = message.decode(Claim)
        is_granted = owners.setdefault(claim.name, claim.client) == claim.client
        producer.send(told, value=encode(Answer(*claim, is_granted, message.partition, message.offset)))
    producer.flush()


def _draw(found: dict[str, list[Answer]]) -> LogFigure:
    """Draw the beginning of each log, with the decisions."""
    rows: dict[str, list[Cell]] = {}
    for way in (way for way, layout in LAYOUTS.items() if layout.deciders == 1):
        granted = {(answer.name, answer.client) for answer in found[way] if answer.is_granted}
        doubled = {name for name, owners in Counter(name for name, _ in granted).items() if owners > 1}
        for partition in range(LAYOUTS[way].logs):
            here = sorted((each for each in found[way] if each.partition == partition), key=lambda each: each.offset)
            logs, number = way.partition(",")[0], f": log {partition + 1}" if LAYOUTS[way].logs > 1 else ""
            cells = rows[f"{logs}{number}"] = []
            for each in here[:DRAWN]:
                granted_as = Tone.BAD if each.name in doubled else Tone.GOOD
                tone = granted_as if each.is_granted else Tone.QUIET
                cells.append(Cell(each.offset, f"{each.name}:{each.client}", tone))
    title = f"name:client, the first {DRAWN} claims of each log. Green: granted; red: to two clients; grey: refused"
    return LogFigure(title, rows)
