"""A lane: one way in which changes get from the log to where a reader sees them, as a process that runs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from tests.bench.world import log
from tests.bench.world.contents import Contents, differences, in_delta, in_postgres
from tests.bench.world.jobs import Job
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source, Written
from tests.bench.world.stock import Stock
from tests.bench.world.visible import Sight, cuts_seen, newest_cut, rows_seen, wait_until_seen

START_SECONDS, CATCH_UP_SECONDS = 600.0, 3600.0


class Lane(Protocol):
    """A side of a goal whose changes come by the log."""

    def running(self) -> AbstractContextManager[Job]:
        """Its process."""

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        """What a reader of these tables sees."""

    def contents(self, table: str) -> Contents:
        """What the copy of a table holds."""


class Touched(Protocol):
    """A leader of which single rows can be changed."""

    def touch(self, names: Sequence[str]) -> Written:
        """Change a row of each table, in one transaction."""


@dataclass(frozen=True, slots=True)
class LakeLane:
    """Ours: `cdc follow` to the lake, read at its cuts."""

    pipeline: Pipeline
    followers: Sequence[str] = (LAKE,)

    def running(self) -> AbstractContextManager[Job]:
        return self.pipeline.following(*self.followers)

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        return cuts_seen(self.pipeline.cuts)

    def contents(self, table: str) -> Contents:
        version = newest_cut(self.pipeline.cuts)[f"public.{table}"]
        return in_delta(self.pipeline.folder(table), version)


@dataclass(frozen=True, slots=True)
class MergeLane:
    """Stock: Structured Streaming with a MERGE a table, read at its newest version."""

    stock: Stock
    tables: Sequence[str]
    name: str = "merge"

    def running(self) -> AbstractContextManager[Job]:
        return self.stock.merging(self.tables, self.name)

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        return rows_seen([self.stock.folder(table) for table in tables])

    def contents(self, table: str) -> Contents:
        return in_delta(self.stock.folder(table))


@dataclass(frozen=True, slots=True)
class Open:
    """A lane that runs, has shown a first change, and is watched."""

    lane: Lane
    source: Touched
    tables: Sequence[str]
    job: Job
    sight: Sight
    tail: log.TransactionLog

    def touch(self) -> tuple[log.End, float]:
        """Change a row in every table, and wait until that is seen; gives its END and when that was."""
        return self.wait(self.source.touch(self.tables).xid)

    def wait(self, xid: int, limit: float = CATCH_UP_SECONDS) -> tuple[log.End, float]:
        """Wait until a transaction is in the log, and then until it is seen."""
        end = self.tail.wait_for(xid, limit, skip=True)
        return end, wait_until_seen(self.sight, self.job, end.commit, limit)


@contextmanager
def opened(lane: Lane, source: Touched, pipeline: Pipeline, tables: Sequence[str]) -> Iterator[Open]:
    """Start a lane, and wait until it has caught up: a change made now is seen."""
    with (
        log.transactions(pipeline.parts.kafka, pipeline.transactions) as tail,
        lane.watched(tables) as sight,
        lane.running() as job,
    ):
        running = Open(lane, source, tables, job, sight, tail)
        running.touch()
        yield running


def compared(source: Source, lane: Lane, tables: Sequence[str]) -> list[str]:
    """Where a lane's copies differ from the source now."""
    with source.connection() as connection:
        return [
            difference
            for table in tables
            for difference in differences(table, in_postgres(connection, table), lane.contents(table))
        ]
