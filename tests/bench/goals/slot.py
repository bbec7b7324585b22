"""What the slot of a pipeline at rest keeps, while others write much WAL of a table that nobody captures."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, compared, opened
from tests.bench.goals.measures import CPU, taken
from tests.bench.ground import Ground
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source

TABLE = "orders"
KEPT = Measure("kept", "most WAL that the slot kept", "MiB")
MEDIAN = Measure("median", "its median", "MiB")
WRITTEN = Measure("written", "WAL written a second", "MiB/s", more_is_better=True)
LOOK_SECONDS = 1.0
PAUSE_SECONDS = 0.1
"""Between two transactions of the busy table, of a megabyte each."""
FILL = "INSERT INTO busy VALUES (repeat('x', 1000000))"
MOST_ROWS = 200
_KEPT = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
    "::bigint FROM pg_replication_slots WHERE slot_name = %s"
)


@dataclass(frozen=True, slots=True)
class SlotStage:
    """One captured table that nobody writes to, which is followed, and a busy one beside it."""

    source: Source
    pipeline: Pipeline
    sizes: Sizes

    def run(self, side: str) -> Readings:
        del side
        ended = threading.Event()
        writer = threading.Thread(target=self._write, args=(ended,))
        with (
            opened(LakeLane(self.pipeline), self.source, self.pipeline, [TABLE]),
            self.source.connection() as connection,
        ):
            writer.start()
            try:
                with self.pipeline.meter.window() as window:
                    looks = [self._look(connection) for _ in range(self.sizes["seconds"])]
            finally:
                ended.set()
                writer.join()
        kept = sorted(kept / 2**20 for kept, _ in looks)
        values = {
            "kept": kept[-1],
            "median": kept[len(kept) // 2],
            "written": (looks[-1][1] - looks[0][1]) / 2**20 / window.usage.seconds,
        }
        return Readings({**values, **taken(window.usage)}, window.usage)

    def _write(self, ended: threading.Event) -> None:
        with self.source.connection() as connection:
            for number in itertools.count(1):
                if ended.wait(PAUSE_SECONDS):
                    return
                connection.execute(FILL)
                if number % MOST_ROWS == 0:
                    connection.execute("TRUNCATE busy")

    def _look(self, connection: "psycopg.Connection[Any]") -> tuple[int, int]:
        """Bytes that the slot keeps, and the place of the newest WAL, once a second."""
        threading.Event().wait(LOOK_SECONDS)
        row = connection.execute(_KEPT, (f"cdc_{self.pipeline.name}",)).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def differences(self, side: str) -> list[str]:
        del side
        return compared(self.source, LakeLane(self.pipeline), [TABLE])


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[SlotStage]:
    """A pipeline of one table, and another table beside it."""
    with ground.parts() as parts:
        source = ground.source(parts, "slot", {TABLE: 1_000})
        with source.connection() as connection:
            connection.execute("CREATE TABLE busy (filler text)")
            # else it is compressed to nothing
            connection.execute("ALTER TABLE busy ALTER filler SET STORAGE EXTERNAL")
        pipeline = ground.pipeline(source, [TABLE])
        pipeline.bootstrap()
        yield SlotStage(source, pipeline, sizes)


SLOT = Goal(
    "slot",
    "WAL that the slot of an idle table keeps beside a busy table that nobody captures",
    "below 64 MiB in ten minutes",
    (OURS,),
    (KEPT, MEDIAN, WRITTEN, CPU),
    (Limit("kept", 64.0),),
    {
        Scale.SMALL: {"seconds": 60},
        Scale.FULL: {"seconds": 600},
    },
    stage,
)
