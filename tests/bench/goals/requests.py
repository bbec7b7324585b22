"""How many requests of an object store it takes to have nothing to do, to look, and to wait."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, compared, opened
from tests.bench.ground import Ground
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.requests import Requests, counted_store
from tests.bench.world.source import Source

IDLE = Measure("idle", "requests of `cdc follow` with nothing to do", "1/min")
STATUS = Measure("status", "requests of one `cdc status`", "")
WAIT = Measure("wait", "requests of one `cdc wait` for a change of one table", "")


@dataclass(frozen=True, slots=True)
class RequestsStage:
    """A lake of many tables on an object store that counts, and nobody who writes."""

    source: Source
    tables: Sequence[str]
    pipeline: Pipeline
    sizes: Sizes
    requests: Requests

    def run(self, side: str) -> Readings:
        lane = LakeLane(self.pipeline, (LAKE, "search"))
        with opened(lane, self.source, self.pipeline, self.tables), self.pipeline.meter.window() as window:
            self._rest(self.sizes["settle"])
            before = self.requests.count
            self._rest(self.sizes["seconds"])
            idle = self.requests.count - before
            status = self._count("status", "--json")
            self.source.touch(self.tables[:1])
            with self.source.connection() as connection:
                row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            assert row is not None
            wait = self._count("wait", "--follower", LAKE, "--token", str(row[0]), "--seconds", "120")
        values = {"idle": 60 * idle / self.sizes["seconds"], "status": float(status), "wait": float(wait)}
        return Readings(values, window.usage)

    def differences(self, side: str) -> list[str]:
        return compared(self.source, LakeLane(self.pipeline), self.tables)

    def _count(self, *verb: str) -> int:
        """How many requests come while a verb runs; those of `cdc follow` are among them."""
        before = self.requests.count
        self.pipeline.verb(*verb)
        return self.requests.count - before

    @staticmethod
    def _rest(seconds: float) -> None:
        """Let time pass: that nothing happens is what is measured."""
        threading.Event().wait(seconds)


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[RequestsStage]:
    """Tables of a few rows on an S3Proxy whose requests are counted on their way, with an index behind them."""
    with ground.parts() as parts, counted_store(ground.folder / "s3") as store:
        tables = [f"orders{n}" for n in range(sizes["tables"])]
        source = ground.source(parts, "requests", dict.fromkeys(tables, sizes["rows"]))
        settings = store.settings("requests", {})
        pipeline = ground.pipeline(source, tables, (LAKE, "search"), name="requests", settings=settings)
        store.show(pipeline)
        pipeline.bootstrap()
        yield RequestsStage(source, tables, pipeline, sizes, store.requests)


GOAL = Goal(
    "idle-requests",
    "Requests of an object store with nothing to do, for a status, and for a wait",
    "a lake of 200 tables: ≤ 10 requests in an idle minute",
    (OURS,),
    (IDLE, STATUS, WAIT),
    (Limit("idle", 10),),
    {
        Scale.SMALL: {"tables": 10, "rows": 10, "settle": 20, "seconds": 60},
        Scale.FULL: {"tables": 200, "rows": 10, "settle": 60, "seconds": 600},
    },
    stage,
)
