"""From the start of `cdc follow` to a first change in every follower: on a quiet machine, and beside busy processes."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import START_SECONDS, LakeLane, MergeLane, compared
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world import log, search
from tests.bench.world.jobs import Job
from tests.bench.world.latest import LatestTopic
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import Stock, stock_of
from tests.bench.world.visible import wait_until_seen

TABLE = "orders"
FOLLOWERS = (LAKE, "search", "latest")
ALL = Measure("first", "start to the first change in every follower", "s")
IN_LAKE = Measure("lake", "in the lake", "s")
IN_SEARCH = Measure("search", "in the index", "s")
IN_LATEST = Measure("latest", "in the latest topic", "s")


@dataclass(frozen=True, slots=True)
class StartStage:
    """A change is in the log before the process starts."""

    source: Source
    pipeline: Pipeline
    stock: Stock
    sizes: Sizes

    def run(self, side: str) -> Readings:
        kafka = self.pipeline.parts.kafka
        with log.transactions(kafka, self.pipeline.transactions) as tail:
            end = tail.wait_for(self.source.touch([TABLE]).xid, START_SECONDS)
        with busy(self.sizes["burners"]), self.pipeline.meter.window() as window:
            found = self._ours(end) if side == OURS else self._stock(end)
        return Readings({"first": max(found.values()), **found, **taken(window.usage)}, window.usage)

    def differences(self, side: str) -> list[str]:
        lane = LakeLane(self.pipeline) if side == OURS else MergeLane(self.stock, [TABLE])
        return compared(self.source, lane, [TABLE])

    def _ours(self, end: log.End) -> dict[str, float]:
        lane, parts = LakeLane(self.pipeline, FOLLOWERS), self.pipeline.parts
        topic = f"{self.pipeline.name}.latest.public.{TABLE}"
        with (
            closing(LatestTopic(parts.kafka, topic)) as latest,
            lane.watched([TABLE]) as sight,
            lane.running() as job,
            ThreadPoolExecutor(3) as threads,
        ):
            waits = {
                "lake": threads.submit(wait_until_seen, sight, job, end.commit, START_SECONDS),
                "search": threads.submit(self._found, job, end.xid),
                "latest": threads.submit(latest.wait_for, end.xid, job, START_SECONDS),
            }
            return {name: wait.result() - job.began for name, wait in waits.items()}

    def _found(self, job: Job, xid: int) -> float:
        return search.wait_until_found(self.pipeline.parts.search, self.pipeline.index(TABLE), xid, job, START_SECONDS)

    def _stock(self, end: log.End) -> dict[str, float]:
        lane = MergeLane(self.stock, [TABLE])
        with lane.watched([TABLE]) as sight, lane.running() as job:
            return {"lake": wait_until_seen(sight, job, end.commit, START_SECONDS) - job.began}


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that take a core each, as long as the context lasts."""
    with ExitStack() as held:
        for _ in range(processes):
            burner = held.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            held.callback(burner.kill)
        yield


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[StartStage]:
    """One table with every follower, and a stock copy."""
    with ground.parts() as parts:
        tables = {TABLE: sizes["rows"]}
        source = ground.source(parts, "start", tables)
        pipeline = ground.pipeline(source, [TABLE], FOLLOWERS)
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        stock.copy(tables)
        yield StartStage(source, pipeline, stock, sizes)


QUIET = Goal(
    "start",
    "Start of `cdc follow` to the first change in every follower",
    "warm: ≤ 15 s",
    (OURS, STOCK),
    (ALL, IN_LAKE, IN_SEARCH, IN_LATEST, CPU, JOB_CPU, MEMORY),
    (Limit("first", 15.0),),
    {Scale.SMALL: {"rows": 5_000, "burners": 0}, Scale.FULL: {"rows": 1_000_000, "burners": 0}},
    stage,
)
BUSY = replace(
    QUIET,
    name="start-busy",
    title="The same beside two busy processes",
    asked="≤ 40 s",
    limits=(Limit("first", 40.0),),
    sizes={Scale.SMALL: {"rows": 5_000, "burners": 2}, Scale.FULL: {"rows": 1_000_000, "burners": 2}},
)
