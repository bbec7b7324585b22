"""A job that takes a log in batches, four ways: the order of its two steps, or one step for both.

It runs in a process of `lives.py`, which is killed where it passes a point.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness.lives import Life
from cdc.lab.messages import Message, take_exactly
from cdc.lab.temporary import open_consumer

BATCH: Final = 10
BATCHES: Final = 12
EVENTS: Final = BATCH * BATCHES
BETWEEN, BEHIND = "between the two steps", "after both steps"
"""The points at which it may be killed."""
WRITE: Final = "INSERT INTO effects VALUES (%s, %s)"


class Job:
    """One life of the job: its places in Kafka and in Postgres, and the steps that it can take."""

    def __init__(self, consumer: Any, connection: "psycopg.Connection[Any]", life: Life) -> None:
        self.connection = connection
        self._consumer = consumer
        self._life = life

    def take_batch(self) -> list[Message]:
        batch = take_exactly(self._consumer, BATCH)
        self._life.report(batch=batch[0].offset // BATCH)
        return batch

    def write(self, batch: Sequence[Message], write: str = WRITE) -> None:
        """Write the effect of each event: here a row with the life that wrote it."""
        with self.connection.cursor() as cursor:
            cursor.executemany(write, [(message.offset, self._life.number) for message in batch])

    def checkpoint(self) -> None:
        """Note in Kafka how far the job has come."""
        self._consumer.commit()

    def pass_point(self, batch: Sequence[Message], point: str) -> None:
        self._life.pass_point(f"batch {batch[0].offset // BATCH}, {point}")


def write_first(job: Job, batch: Sequence[Message]) -> None:
    job.write(batch)
    job.pass_point(batch, BETWEEN)
    job.checkpoint()


def checkpoint_first(job: Job, batch: Sequence[Message]) -> None:
    job.checkpoint()
    job.pass_point(batch, BETWEEN)
    job.write(batch)


def write_with_position(job: Job, batch: Sequence[Message]) -> None:
    with job.connection.transaction():
        job.write(batch)
        job.pass_point(batch, BETWEEN)
        job.connection.execute("UPDATE progress SET position = %s", (batch[-1].offset + 1,))


def write_idempotently(job: Job, batch: Sequence[Message]) -> None:
    job.write(batch, f"{WRITE} ON CONFLICT (event) DO NOTHING")
    job.pass_point(batch, BETWEEN)
    job.checkpoint()


WAYS: Final[dict[str, Callable[[Job, Sequence[Message]], None]]] = {
    "effect, then checkpoint: at least once": write_first,
    "checkpoint, then effect: at most once": checkpoint_first,
    "position in the effect's transaction": write_with_position,
    "an idempotent effect, then checkpoint": write_idempotently,
}


def work(life: Life, *, way: str, bootstrap: str, topic: str, group: str, dsn: str) -> None:
    """Take batch after batch to the end of the log, from where the life before has come to."""
    log = TopicPartition(topic, 0)
    with open_consumer(bootstrap, group_id=group) as consumer, psycopg.connect(dsn, autocommit=True) as connection:
        # begins where the checkpoint in Kafka is, unless the position is in Postgres
        consumer.assign([log])
        if WAYS[way] is write_with_position:
            consumer.seek(log, connection.execute("SELECT position FROM progress").fetchall()[0][0])
        job = Job(consumer, connection, life)
        while consumer.position(log) < EVENTS:
            batch = job.take_batch()
            WAYS[way](job, batch)
            job.pass_point(batch, BEHIND)
