"""A job takes a log in small batches, writes their effects into Postgres, and notes how far it has come: two steps.

It is killed between them. Which step is first decides whether effects are doubled or lost; it helps to make both one
step, or the effect idempotent, which is the same when it is done twice.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
from kafka import TopicPartition

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.lives import Life, LifeReport, Worker, WorkerProcesses, plan_deaths
from cdc.lab.messages import Message, take_exactly
from cdc.lab.temporary import open_consumer
from cdc.lab.workplace import Workplace

BATCH: Final = 10
BATCHES: Final = 12
EVENTS: Final = BATCH * BATCHES
BETWEEN, BEHIND = "between the two steps", "after both steps"
WRITE: Final = "INSERT INTO effects VALUES (%s, %s)"
KINDS: Final = (BETWEEN, BETWEEN, BETWEEN, BEHIND)  # the points at which the job is killed, in any order
KILLS: Final = len(KINDS)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in the hands of one life of the job, and its steps."""

    life: Life
    consumer: Any
    session: "psycopg.Connection[Any]"
    messages: list[Message]

    def write(self, query: LiteralString = WRITE) -> None:
        """Write the effect of each event: here a row with the life that wrote it."""
        rows = [(message.offset, self.life.number) for message in self.messages]
        self.session.cursor().executemany(query, rows)

    def checkpoint(self) -> None:
        self.consumer.commit()

    def pass_point(self, point: str) -> None:
        self.life.pass_point(f"batch {self.messages[0].offset // BATCH}, {point}")


def write_first(batch: Batch) -> None:
    batch.write()
    batch.pass_point(BETWEEN)
    batch.checkpoint()


def checkpoint_first(batch: Batch) -> None:
    batch.checkpoint()
    batch.pass_point(BETWEEN)
    batch.write()


def write_with_position(batch: Batch) -> None:
    with batch.session.transaction():
        batch.write()
        batch.pass_point(BETWEEN)
        batch.session.execute("UPDATE progress SET position = %s", (batch.messages[-1].offset + 1,))


def write_idempotently(batch: Batch) -> None:
    batch.write(WRITE + " ON CONFLICT (event) DO NOTHING")
    batch.pass_point(BETWEEN)
    batch.checkpoint()


WAYS: Final[dict[str, Callable[[Batch], None]]] = {
    "effect, then checkpoint: at least once": write_first,
    "checkpoint, then effect: at most once": checkpoint_first,
    "position in the effect's transaction": write_with_position,
    "an idempotent effect, then checkpoint": write_idempotently,
}


def work(life: Life, *, way: str, bootstrap: str, log: TopicPartition, group: str, dsn: str) -> None:
    """Take batch after batch to the end of the log, from where the life before has come to."""
    with open_consumer(bootstrap, log, group_id=group) as consumer, psycopg.connect(dsn, autocommit=True) as session:
        # begins where the checkpoint in Kafka is, unless the position is in Postgres
        if WAYS[way] is write_with_position:
            consumer.seek(log, session.execute("SELECT position FROM progress").fetchall()[0][0])
        while consumer.position(log) < EVENTS:
            batch = Batch(life, consumer, session, take_exactly(consumer, BATCH))
            life.report(batch=batch.messages[0].offset // BATCH)
            WAYS[way](batch)
            batch.pass_point(BEHIND)


@dataclass(frozen=True, slots=True)
class JobRun:
    """The reports of all lives of a job; and the effects at the end: their events, each with the life that wrote it."""

    reports: list[LifeReport]
    effects: list[tuple[int, int]]

    @property
    def row(self) -> tuple[int, int, int, int, int]:
        """Kills, events taken, and how many events have had their effect once, twice, never."""
        deaths = sum(report.is_death for report in self.reports)
        times = Counter(Counter(event for event, _ in self.effects).values())
        return deaths, (len(self.reports) - deaths) * BATCH, times[1], times[2], EVENTS - times[1] - times[2]

    def judge(self, life: int, batch: int) -> Tone:
        lives = [writer for event, writer in self.effects if event == batch * BATCH]
        if len(lives) != 1:
            return Tone.BAD
        return Tone.PLAIN if life in lives else Tone.QUIET


def run(place: Workplace) -> Findings:
    topic = place.publish(place.topic("micro-batch"), [place.random.randint(1, 99) for _ in range(EVENTS)])
    deaths = plan_deaths(place.random, "batch", KINDS, range(1, BATCHES - 1))
    place.say(f"{BATCHES} batches of {BATCH} events; two steps, effect and checkpoint, four ways, each killed in")
    place.say("; ".join(deaths))
    found = _let_work(place, topic, deaths)
    rows = [(way, *each.row) for way, each in found.items()]
    doubled, lost, (together, same) = rows[0][4], rows[1][5], (row[3] for row in rows[2:])
    return Findings(
        columns=("way", "killed", "processed, some again", "effect once", "twice", "never"),
        rows=rows,
        sentence=f"Killed between its two steps, the job does {doubled} of {EVENTS} events twice or {lost} never, by"
        f" which step is first; with position and effect in one transaction it does {together} once, and with an"
        f" idempotent effect {same}.",
        figure=_draw(found),
    )


def _let_work(place: Workplace, topic: str, deaths: tuple[str, ...]) -> dict[str, JobRun]:
    sessions, workers = {}, []
    for number, way in enumerate(WAYS):
        dsn, group = place.database(f"micro-batch-{number}"), place.group(f"micro-batch-{number}")
        session = sessions[way] = place.session(dsn)
        key = b"PRIMARY KEY" if WAYS[way] is write_idempotently else b""
        session.execute(b"CREATE TABLE effects (event int %s, life int)" % key)
        session.execute("CREATE TABLE progress AS SELECT 0 AS position")
        bootstrap, log = place.bootstrap, TopicPartition(topic, 0)
        job = partial(work, way=way, bootstrap=bootstrap, log=log, group=group, dsn=dsn)
        workers.append(Worker(way, job, deaths))
    reports = WorkerProcesses(place, workers).wait()
    return {
        way: JobRun(
            [report for report in reports if report.worker == way],
            session.execute("SELECT event, life FROM effects").fetchall(),
        )
        for way, session in sessions.items()
    }


def _draw(found: dict[str, JobRun]) -> Timeline:
    """Draw the batches in the order in which they were taken: seconds would hide short ones."""
    spans: list[Span] = []
    deaths: list[Event] = []
    for way, each in found.items():
        at = 0
        for report in each.reports:
            if report.is_death:
                deaths.append(Event(way, at, "killed", Tone.BAD, lost=True))
            else:
                batch = report.said["batch"]
                spans.append(Span(way, at, at + 1, f"b{batch}", each.judge(report.life, batch)))
                at += 1
    title = "Batches as they were taken. Red: their effect is there twice, or never; grey: taken without an effect"
    return Timeline(title, [*found], deaths, spans, unit="batches taken")
