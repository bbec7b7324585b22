"""The counts of a job that was killed, rebuilt from what it has left behind."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness.counting_job import Count, Counts, count_further
from cdc.lab.messages import FILLER, Message, read_whole, take_exactly


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Counts as they were when the job was killed, and what it took to have them again."""

    counts: Counts
    rows: int
    messages: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of the job: the log, how far it had come, its changelog, and a database with its checkpoint.

    Everything is open, so that only reading takes time. `left`: the offsets that compaction has left of the changelog.
    """

    consumer: Any
    log: TopicPartition
    position: int
    changelog_consumer: Any
    changelog: str
    left: tuple[int, ...]
    connection: "psycopg.Connection[Any]"

    def read(self, start: int, end: int) -> list[Message]:
        """Read a part of the log."""
        self.consumer.seek(self.log, start)
        return take_exactly(self.consumer, end - start)


def from_changelog(remains: Remains) -> Rebuilt:
    messages = [m for m in read_whole(remains.changelog_consumer, remains.changelog) if m.key != FILLER]
    return Rebuilt(parse_changelog(messages), 0, len(messages))


def from_checkpoint(remains: Remains) -> Rebuilt:
    counts, position = read_checkpoint(remains.connection)
    rows, rest = len(counts), remains.read(position, remains.position)
    count_further(counts, rest)
    return Rebuilt(counts, rows, len(rest))


def from_log(remains: Remains) -> Rebuilt:
    counts, messages = Counts(), remains.read(0, remains.position)
    count_further(counts, messages)
    return Rebuilt(counts, 0, len(messages))


def from_nothing(_: Remains) -> Rebuilt:
    return Rebuilt({}, 0, 0)


def parse_changelog(messages: Iterable[Message]) -> Counts:
    """The counts that a changelog has: the newest of each key."""
    return {str(message.key): Count(*map(int, str(message.value).split())) for message in messages}


def read_checkpoint(connection: "psycopg.Connection[Any]") -> tuple[Counts, int]:
    """The counts that were saved last, and their position in the log."""
    rows = connection.execute("SELECT key, number, position FROM checkpoint").fetchall()
    [(position,)] = connection.execute("SELECT position FROM progress").fetchall()
    return {key: Count(number, at) for key, number, at in rows}, position
