"""A job that counts events by key, in its memory. New counts go into a changelog, sometimes all into a checkpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness.lives import Life
from cdc.lab.messages import Message, take_exactly
from cdc.lab.temporary import open_consumer, open_producer

BATCH: Final = 200
CHECKPOINT: Final = 6
"""Every so many batches, all counts are saved as a checkpoint."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many events of a key came before `position`."""

    number: int
    position: int

    def __str__(self) -> str:
        return f"{self.number} {self.position}"


Counts = dict[str, Count]


def count_further(counts: Counts, events: Iterable[Message]) -> None:
    """Count events; those that a count already has in it are not counted again."""
    for event in events:
        key = str(event.key)
        count = counts.get(key, Count(0, 0))
        if event.offset >= count.position:
            counts[key] = Count(count.number + 1, event.offset + 1)


def work(life: Life, *, bootstrap: str, topic: str, changelog: str, group: str, dsn: str) -> None:
    """Count batch after batch. New counts go into the changelog, from time to time all of them into a checkpoint."""
    counts: Counts = {}
    with (
        open_consumer(bootstrap, group_id=group) as consumer,
        open_producer(bootstrap) as producer,
        psycopg.connect(dsn) as connection,
    ):
        consumer.assign([TopicPartition(topic, 0)])
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
                _save_checkpoint(connection, counts, number * BATCH)


def _log_changes(producer: Any, changelog: str, counts: Counts, keys: Iterable[str]) -> None:
    for key in keys:
        producer.send(changelog, key=key, value=str(counts[key]))
    producer.flush()


def _save_checkpoint(connection: "psycopg.Connection[Any]", counts: Counts, position: int) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM checkpoint")
        cursor.execute("UPDATE progress SET position = %s", (position,))
        rows = [(key, count.number, count.position) for key, count in counts.items()]
        cursor.executemany("INSERT INTO checkpoint VALUES (%s, %s, %s)", rows)
