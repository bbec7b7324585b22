"""A job that counts is killed, and its counts with it: they come back from a changelog, a checkpoint, or the whole log.

The same counts, at different costs. Without any of them the job goes on where it was, and counts from nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg
from kafka import TopicPartition

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, ReaderMark
from cdc.lab.lesson import Findings
from cdc.lab.lives import Life, Worker, WorkerProcesses
from cdc.lab.messages import COMPACTED, FILLER, Message, encode, read_compacted, read_whole, take_exactly
from cdc.lab.temporary import open_consumer, open_producer
from cdc.lab.waiting import read_clock
from cdc.lab.workplace import Workplace

BATCH: Final = 200
CHECKPOINT: Final = 6  # every so many batches, all counts are saved
BATCHES: Final = 24
EVENTS: Final = BATCH * BATCHES
KEYS: Final = 40
DRAWN: Final = 25  # so many messages of the changelog are a cell of the figure


class Count(NamedTuple):
    """How many events of a key came before `position`."""

    number: int
    position: int


Counts = dict[str, Count]


def count_further(counts: Counts, events: Iterable[Message]) -> None:
    """Count events; those that a count already has in it are not counted again."""
    for event in events:
        key = str(event.key)
        count = counts.get(key, Count(0, 0))
        if event.offset >= count.position:
            counts[key] = Count(count.number + 1, event.offset + 1)


def work(life: Life, *, bootstrap: str, log: TopicPartition, changelog: str, group: str, dsn: str) -> None:
    """Count batch after batch, until the job is killed."""
    counts: Counts = {}
    with (
        open_consumer(bootstrap, log, group_id=group) as consumer,
        open_producer(bootstrap) as producer,
        psycopg.connect(dsn, autocommit=True) as session,
    ):
        number = 0
        while batch := take_exactly(consumer, BATCH):
            number += 1
            count_further(counts, batch)
            changed = sorted({str(event.key) for event in batch})
            half = len(changed) // 2
            _log_changes(producer, changelog, counts, changed[:half])
            life.pass_point(f"batch {number}")
            _log_changes(producer, changelog, counts, changed[half:])
            consumer.commit()
            if number % CHECKPOINT == 0:
                _save_checkpoint(session, counts, number * BATCH)


def _log_changes(producer: Any, changelog: str, counts: Counts, keys: Sequence[str]) -> None:
    for key in keys:
        producer.send(changelog, key=key, value=encode(counts[key]))
    producer.flush()


def _save_checkpoint(session: "psycopg.Connection[Any]", counts: Counts, position: int) -> None:
    with session.transaction():
        session.execute("DELETE FROM checkpoint")
        session.execute("UPDATE progress SET position = %s", (position,))
        rows = [(key, *count) for key, count in counts.items()]
        session.cursor().executemany("INSERT INTO checkpoint VALUES (%s, %s, %s)", rows)


@dataclass(frozen=True, slots=True)
class Remains:
    """All that is left of the job: the log, how far it had come, its changelog, and a database with its checkpoint.

    Everything is open, so that only reading takes time. `left`: the offsets that compaction has left of the changelog.
    """

    consumer: Any
    log: TopicPartition
    position: int
    changelog_consumer: Any
    changelog: str
    left: tuple[int, ...]
    session: "psycopg.Connection[Any]"

    def read(self, start: int, end: int) -> list[Message]:
        self.consumer.seek(self.log, start)
        return take_exactly(self.consumer, end - start)


Rebuilt = tuple[Counts, int, int]
"""Counts as they were when the job was killed; rows and messages that were read for them."""


def from_changelog(remains: Remains) -> Rebuilt:
    messages = [m for m in read_whole(remains.changelog_consumer, remains.changelog) if m.key != FILLER]
    return parse_changelog(messages), 0, len(messages)


def parse_changelog(messages: Iterable[Message]) -> Counts:
    """The counts that a changelog has: the newest of each key."""
    return {str(message.key): message.decode(Count) for message in messages}


def from_checkpoint(remains: Remains) -> Rebuilt:
    rows = remains.session.execute("SELECT key, number, position FROM checkpoint").fetchall()
    [(position,)] = remains.session.execute("SELECT position FROM progress").fetchall()
    counts, rest = {key: Count(*count) for key, *count in rows}, remains.read(position, remains.position)
    count_further(counts, rest)
    return counts, len(rows), len(rest)


def from_log(remains: Remains) -> Rebuilt:
    counts, messages = Counts(), remains.read(0, remains.position)
    count_further(counts, messages)
    return counts, 0, len(messages)


def from_nothing(_: Remains) -> Rebuilt:
    return {}, 0, 0


WAYS: Final[dict[str, Callable[[Remains], Rebuilt]]] = {
    "its changelog, compacted": from_changelog,
    "a checkpoint, and the log behind it": from_checkpoint,
    "the whole log": from_log,
    "nothing": from_nothing,
}


def run(place: Workplace) -> Findings:
    keys = [f"key {place.random.randrange(KEYS)}" for _ in range(EVENTS)]
    # not soon after a checkpoint, and not near the end
    dies = CHECKPOINT * 2 + place.random.randint(3, CHECKPOINT - 1)
    remains, truth, rows = _count_until_killed(place, keys, dies), Counter(keys), []
    rebuilt = []
    for way, rebuild in WAYS.items():
        began = read_clock()
        rebuilt.append((way, *rebuild(remains), round(read_clock() - began)))
    rest = remains.read(remains.position, EVENTS)
    for way, counts, read, messages, took in rebuilt:
        count_further(counts, rest)
        rows.append((way, read, messages, took, sum(counts[key].number != truth[key] for key in truth)))
    kept, behind, whole, _ = (row[2] for row in rows)
    return Findings(
        columns=("rebuilt from", "rows read", "messages read", "ms", "counts wrong in the end"),
        rows=rows,
        sentence=f"Killed after {remains.position:,} of {EVENTS:,} events, the job has its counts again from {kept}"
        f" messages of its changelog, from a checkpoint of {rows[1][1]} rows and {behind} messages, or from all"
        f" {whole:,} messages of the log; without any of them {rows[3][4]} of {len(truth)} counts end wrong.",
        figure=_draw(remains, [row[2] for row in rows]),
    )


def _count_until_killed(place: Workplace, keys: Sequence[str], dies: int) -> Remains:
    topic, changelog, dsn = place.topic("state"), place.topic("changelog", settings=COMPACTED), place.database("state")
    log, group, session = TopicPartition(topic, 0), place.group("state"), place.session(dsn)
    place.publish(topic, keys, key=str)
    session.execute("CREATE TABLE checkpoint (key text, number int, position int)")
    session.execute("CREATE TABLE progress AS SELECT 0 AS position")
    place.say(f"the job is killed over its batch {dies} of {BATCH} events; another machine takes over")
    job = partial(work, bootstrap=place.bootstrap, log=log, changelog=changelog, group=group, dsn=dsn)
    WorkerProcesses(place, [Worker("job", job, (f"batch {dies}",), comes_back=False)]).wait()
    consumer, other = place.consumer(log, group_id=group), place.consumer()
    # the first message that a consumer reads takes long
    position = consumer.position(log)
    take_exactly(consumer, 1)
    place.say("the broker looks every few seconds for messages to compact")
    left = tuple(message.offset for message in read_compacted(other, place.producer(), changelog))
    return Remains(consumer, log, position, other, changelog, left, session)


def _draw(remains: Remains, messages: Sequence[int]) -> LogFigure:
    """Draw the reading of each way: of the log a cell for each batch, of the changelog one for some messages."""
    changelog, *others = WAYS
    left = Counter(offset // DRAWN for offset in remains.left)
    cells = range(max(remains.left) // DRAWN + 1)
    rows = {changelog: [Cell(n, str(left[n] or ""), Tone.PLAIN if left[n] else Tone.QUIET) for n in cells]}
    killed = remains.position // BATCH
    for way, read in zip(others, messages[1:], strict=True):
        start = killed - read // BATCH
        rows[way] = [Cell(n, "", Tone.PLAIN if n >= start else Tone.QUIET) for n in range(killed)]
    checkpoint, whole, nothing = others
    marks = {
        checkpoint: [ReaderMark("the checkpoint", (remains.position - messages[1]) // BATCH, Tone.GOOD)],
        whole: [ReaderMark("the job was killed", killed, Tone.BAD)],
        nothing: [ReaderMark("it would go on here, and count from nothing", killed, Tone.BAD)],
    }
    title = f"Read to have the counts again: blue. A cell is {BATCH:,} events of the log, {DRAWN} of the changelog"
    return LogFigure(title, rows, marks)
