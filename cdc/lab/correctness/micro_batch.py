"""A job takes a log in small batches, writes their effects into Postgres, and notes how far it has come: two steps.

It is killed between them. Which step is first decides whether effects are doubled or lost; what helps is one step for
both, or an idempotent effect, which is the same when it is done twice.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import psycopg

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.correctness.batch_job import BATCH, BATCHES, BEHIND, BETWEEN, EVENTS, WAYS, work, write_idempotently
from cdc.lab.correctness.lives import LifeReport, Worker, plan_deaths, run_workers
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

KINDS: Final = (BETWEEN, BETWEEN, BETWEEN, BEHIND)
"""The job is killed between its two steps, and once behind both."""
KILLS: Final = len(KINDS)


@dataclass(frozen=True, slots=True)
class JobRun:
    """What the lives of a job reported; and the effects at the end: their events, each with the life that wrote it."""

    reports: list[LifeReport]
    effects: list[tuple[int, int]]

    @property
    def row(self) -> tuple[int, int, int, int, int]:
        """Kills, events taken, and how many events have had their effect once, twice, never."""
        deaths = sum(report.is_death for report in self.reports)
        times = Counter(Counter(event for event, _ in self.effects).values())
        return deaths, (len(self.reports) - deaths) * BATCH, times[1], times[2], EVENTS - times[1] - times[2]


def run(place: Workplace) -> Findings:
    topic, producer = place.topic("micro-batch"), place.producer()
    for _ in range(EVENTS):
        producer.send(topic, value=str(place.random.randint(1, 99)))
    producer.flush()
    deaths = plan_deaths(place.random, "batch", KINDS, range(1, BATCHES - 1))
    place.say(f"{BATCHES} batches of {BATCH} events; two steps, effect and checkpoint, four ways, each killed in")
    place.say("; ".join(deaths))
    found = _let_work(place, topic, deaths)
    rows = [(way, *each.row) for way, each in found.items()]
    doubled, lost, (together, same) = rows[0][4], rows[1][5], (row[3] for row in rows[2:])
    return Findings(
        columns=("way", "killed", "processed, some again", "effect once", "twice", "never"),
        rows=tuple(rows),
        sentence=f"Killed between its two steps, the job does {doubled} of {EVENTS} events twice or {lost} never, by"
        f" which step is first; with position and effect in one transaction it does {together} once, and with an"
        f" idempotent effect {same}.",
        figure=_draw(found),
    )


def _let_work(place: Workplace, topic: str, deaths: tuple[str, ...]) -> dict[str, JobRun]:
    databases = {way: place.database(f"micro-batch-{number}") for number, way in enumerate(WAYS)}
    workers: list[Worker] = []
    for way, dsn in databases.items():
        with psycopg.connect(dsn, autocommit=True) as connection:
            key = "PRIMARY KEY" if WAYS[way] is write_idempotently else ""
            connection.execute(f"CREATE TABLE effects (event int {key}, life int)")
            connection.execute("CREATE TABLE progress AS SELECT 0 AS position")
        group = place.group(f"micro-batch-{len(workers)}")
        address = {"bootstrap": place.parts.kafka_bootstrap, "topic": topic, "group": group, "dsn": dsn}
        workers.append(Worker(way, work, {"way": way, **address}, deaths))
    reports = run_workers(place, workers)
    return {way: JobRun([r for r in reports if r.worker == way], _read_effects(dsn)) for way, dsn in databases.items()}


def _read_effects(dsn: str) -> list[tuple[int, int]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT event, life FROM effects").fetchall()


def _draw(found: dict[str, JobRun]) -> Timeline:
    """Draw the batches in the order in which they were taken: seconds would hide what is short."""
    spans: list[Span] = []
    deaths: list[Event] = []
    for way, each in found.items():
        at = 0
        for report in each.reports:
            if report.is_death:
                deaths.append(Event(way, at, "killed", Tone.BAD, lost=True))
            else:
                batch = report.said["batch"]
                spans.append(Span(way, at, at + 1, f"b{batch}", _judge(each, report.life, batch)))
                at += 1
    title = "Batches as they were taken. Red: their effect is there twice, or never; grey: taken without an effect"
    return Timeline(title, tuple(found), events=tuple(deaths), spans=tuple(spans), unit="batches taken")


def _judge(each: JobRun, life: int, batch: int) -> Tone:
    lives = [writer for event, writer in each.effects if event == batch * BATCH]
    if len(lives) != 1:
        return Tone.BAD
    return Tone.PLAIN if life in lives else Tone.QUIET


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Fault Tolerance", "Microbatching and checkpointing"),
        Passage(FIRST, "Fault Tolerance", "Idempotence"),
        Passage(SECOND, "Fault Tolerance", "Microbatching and checkpointing"),
        Passage(SECOND, "Fault Tolerance", "Idempotence"),
    ),
    files=("cdc/core/follower.py", "sinks/lake/follower.py"),
    parts=(Service.POSTGRES, Service.KAFKA),
    run=run,
)
