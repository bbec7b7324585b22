"""Fifty clients claim names: who decides in the order of one log gives each name to one client, without a lock.

Two deciders that read the same log decide alike; two that have logs of their own give names away twice.
"""

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from typing import Any, Final
from zlib import crc32

from kafka import TopicPartition

from cdc.lab.book import FIRST_FUTURE, SECOND_PHILOSOPHY, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import read_whole, take_exactly
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

CLIENTS: Final = 50
NAMES: Final = "abcdefghijkl"
ASK_AGAIN: Final = 12
"""So many clients are impatient, and send their claim again."""
DRAWN: Final = 20
"""So many claims of a log are drawn."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A client wants a name."""

    client: int
    name: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told; the claim lies in this partition at this offset."""

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
        rows=tuple(rows),
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
    """Let deciders answer while claims are sent; returns what the clients are told."""
    log, told, producer = place.topic(topic, layout.logs), place.topic(f"{topic}-answers"), place.producer()
    logs = [layout.choose_log(number, claim) for number, claim in enumerate(claims)]
    works = [
        partial(decide, place.consumer(), place.producer(), TopicPartition(log, each), told, logs.count(each))
        for each in sorted(set(logs)) * layout.deciders
    ]
    with ThreadPoolExecutor(len(works)) as threads:
        deciding = [threads.submit(work) for work in works]
        for each, claim in zip(logs, claims, strict=True):
            producer.send(log, value=json.dumps(asdict(claim)), partition=each)
        for done in deciding:
            done.result()
    return [Answer(**json.loads(str(message.value))) for message in read_whole(place.consumer(), told)]


def decide(consumer: Any, producer: Any, log: TopicPartition, told: str, number: int) -> None:
    """Answer so many claims: a name is granted to the client that is the first to claim it in this log."""
    consumer.assign([log])
    owners: dict[str, int] = {}
    for _ in range(number):
        [message] = take_exactly(consumer, 1)
        claim = Claim(**json.loads(str(message.value)))
        is_granted = owners.setdefault(claim.name, claim.client) == claim.client
        answer = Answer(claim.client, claim.name, is_granted, message.partition, message.offset)
        producer.send(told, value=json.dumps(asdict(answer)))
    producer.flush()


def _draw(found: dict[str, list[Answer]]) -> LogFigure:
    """Draw the beginning of each log, with what was decided."""
    rows = []
    for way in (way for way, layout in LAYOUTS.items() if layout.deciders == 1):
        granted = {(answer.name, answer.client) for answer in found[way] if answer.is_granted}
        doubled = {name for name, owners in Counter(name for name, _ in granted).items() if owners > 1}
        for partition in range(LAYOUTS[way].logs):
            here = sorted((each for each in found[way] if each.partition == partition), key=lambda each: each.offset)
            cells = tuple(Cell(each.offset, f"{each.name}:{each.client}", _choose_tone(each, doubled)) for each in here)
            logs, number = way.partition(",")[0], f": log {partition + 1}" if LAYOUTS[way].logs > 1 else ""
            rows.append(PartitionCells(f"{logs}{number}", cells[:DRAWN]))
    title = f"name:client, the first {DRAWN} claims of each log. Green: granted; red: to two clients; grey: refused"
    return LogFigure(title, tuple(rows))


def _choose_tone(answer: Answer, doubled: set[str]) -> Tone:
    if not answer.is_granted:
        return Tone.QUIET
    return Tone.BAD if answer.name in doubled else Tone.GOOD


LAB: Final = Lab(
    passages=(
        Passage(FIRST_FUTURE, "Aiming for Correctness", "Enforcing Constraints"),
        Passage(SECOND_PHILOSOPHY, "Aiming for Correctness", "Enforcing Constraints"),
    ),
    files=("cdc/run/lease.py", "sinks/lake/delta/log.py"),
    parts=(Service.KAFKA,),
    run=run,
)
