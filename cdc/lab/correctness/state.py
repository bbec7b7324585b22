"""A job that counts is killed, and its counts with it: they come back from a changelog, a checkpoint, or the whole log.

The same counts, at different costs. Without any of them the job goes on where it was, and counts from nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import psycopg
from kafka import TopicPartition

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.correctness.counting_job import BATCH, CHECKPOINT, count_further, work
from cdc.lab.correctness.lives import Worker, run_workers
from cdc.lab.correctness.rebuilding import Rebuilt, Remains, from_changelog, from_checkpoint, from_log, from_nothing
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells, ReaderMark
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import COMPACTED, read_compacted, take_exactly
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

BATCHES: Final = 24
EVENTS: Final = BATCH * BATCHES
KEYS: Final = 40
DRAWN: Final = 25
"""So many messages of the changelog are a cell of the figure."""


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
    remains = _count_until_killed(place, keys, dies)
    truth = Counter(keys)
    found = {way: _rebuild(remains, rebuild) for way, rebuild in WAYS.items()}
    rest = remains.read(remains.position, EVENTS)
    rows = []
    for way, each in found.items():
        count_further(each.counts, rest)
        wrong = sum(each.counts[key].number != truth[key] for key in truth)
        rows.append((way, each.rows, each.messages, round(each.seconds * 1000), wrong))
    kept, behind, whole, _ = (row[2] for row in rows)
    return Findings(
        columns=("rebuilt from", "rows read", "messages read", "ms", "counts wrong in the end"),
        rows=tuple(rows),
        sentence=f"Killed after {remains.position:,} of {EVENTS:,} events, the job has its counts again from {kept}"
        f" messages of its changelog, from a checkpoint of {rows[1][1]} rows and {behind} messages, or from all"
        f" {whole:,} messages of the log; without any of them {rows[3][4]} of {len(truth)} counts end wrong.",
        figure=_draw(remains, found),
    )


def _count_until_killed(place: Workplace, keys: Sequence[str], dies: int) -> Remains:
    topic, changelog, dsn = place.topic("state"), place.topic("changelog", settings=COMPACTED), place.database("state")
    producer, group = place.producer(linger_ms=5), place.group("state")
    for key in keys:
        producer.send(topic, key=key)
    producer.flush()
    connection = place.keep(psycopg.connect(dsn, autocommit=True))
    connection.execute("CREATE TABLE checkpoint (key text, number int, position int)")
    connection.execute("CREATE TABLE progress AS SELECT 0 AS position")
    address = {"topic": topic, "changelog": changelog, "group": group, "dsn": dsn}
    place.say(f"the job is killed over its batch {dies} of {BATCH} events; another machine takes over")
    arguments = {"bootstrap": place.parts.kafka_bootstrap, **address}
    run_workers(place, [Worker("job", work, arguments, (f"batch {dies}",), comes_back=False)])
    log, consumer, other = TopicPartition(topic, 0), place.consumer(group_id=group), place.consumer()
    consumer.assign([log])
    # the first message that a consumer reads takes long
    position = consumer.position(log)
    take_exactly(consumer, 1)
    place.say("the broker looks every few seconds what it can compact")
    left = tuple(message.offset for message in read_compacted(other, producer, changelog))
    return Remains(consumer, log, position, other, changelog, left, connection)


def _rebuild(remains: Remains, rebuild: Callable[[Remains], Rebuilt]) -> Rebuilt:
    began = time.monotonic()
    rebuilt = rebuild(remains)
    return replace(rebuilt, seconds=time.monotonic() - began)


def _draw(remains: Remains, found: dict[str, Rebuilt]) -> LogFigure:
    """Draw what each way reads: of the log a cell for each batch, of the changelog one for some messages."""
    changelog, *others = found
    ends = max(remains.left) // DRAWN + 1
    left = Counter(offset // DRAWN for offset in remains.left)
    cells = tuple(Cell(n, str(left[n] or ""), Tone.PLAIN if left[n] else Tone.QUIET) for n in range(ends))
    rows = [PartitionCells(changelog, cells)]
    killed, saved = remains.position // BATCH, (remains.position - found[others[0]].messages) // BATCH
    marks = (
        ReaderMark("the checkpoint", saved, Tone.GOOD),
        ReaderMark("the job was killed", killed, Tone.BAD),
        ReaderMark("it would go on here, and count from nothing", killed, Tone.BAD),
    )
    for way, mark in zip(others, marks, strict=True):
        start = killed - found[way].messages // BATCH
        cells = tuple(Cell(n, "", Tone.PLAIN if n >= start else Tone.QUIET) for n in range(killed))
        rows.append(PartitionCells(way, cells, (mark,)))
    title = f"Read to have the counts again: blue. A cell is {BATCH:,} events of the log, {DRAWN} of the changelog"
    return LogFigure(title, tuple(rows))


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Fault Tolerance", "Rebuilding state after a failure"),
        Passage(SECOND, "Fault Tolerance", "Rebuilding state after a failure"),
    ),
    files=("sinks/latest/topics.py", "sinks/lake/index/key_index.py"),
    parts=(Service.POSTGRES, Service.KAFKA),
    run=run,
)
