"""What `cdc follow` and the parts take while nothing happens."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, Lane, MergeLane, compared, opened
from tests.bench.goals.measures import JOB_ROLES, PARTS_ROLES, taken
from tests.bench.ground import Ground
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import stock_of

TABLE = "orders"
FOLLOWERS = (LAKE, "search", "latest")
JOB = Measure("job", "the job, of one core", "%")
PARTS = Measure("parts", "the parts together, of one core", "%")
CONNECT = Measure("connect", "Kafka Connect of these", "%")
MEMORY = Measure("memory", "peak memory of the job", "MiB")
PARTS_MEMORY = Measure("parts_memory", "peak memory of the parts", "MiB")


@dataclass(frozen=True, slots=True)
class IdleStage:
    """A side that has caught up, and nobody who writes."""

    source: Source
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        with opened(self.lanes[side], self.source, self.pipeline, [TABLE]):
            self._rest(self.sizes["settle"])
            with self.pipeline.meter.window() as window:
                self._rest(self.sizes["seconds"])
        usage = window.usage
        values = {
            "job": 100 * sum(usage.cpu.get(role, 0.0) for role in JOB_ROLES) / usage.seconds,
            "parts": 100 * sum(usage.cpu.get(role, 0.0) for role in PARTS_ROLES) / usage.seconds,
            "connect": 100 * usage.cpu.get("connect", 0.0) / usage.seconds,
            "memory": taken(usage)["memory"],
            "parts_memory": sum(usage.peak.get(role, 0) for role in PARTS_ROLES) / 2**20,
        }
        return Readings(values, usage)

    def differences(self, side: str) -> list[str]:
        return compared(self.source, self.lanes[side], [TABLE])

    @staticmethod
    def _rest(seconds: float) -> None:
        """Let time pass: that nothing happens is what is measured."""
        threading.Event().wait(seconds)


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[IdleStage]:
    """One pipeline with every follower, a stock copy, and further pipelines whose connectors idle beside it."""
    with ground.parts() as parts:
        tables = {TABLE: sizes["rows"]}
        for number in range(1, sizes["pipelines"]):
            other = ground.source(parts, f"idle{number}", tables)
            ground.pipeline(other, [TABLE]).bootstrap()
        source = ground.source(parts, "idle", tables)
        pipeline = ground.pipeline(source, [TABLE], FOLLOWERS)
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        stock.copy(tables)
        lanes: Mapping[str, Lane] = {OURS: LakeLane(pipeline, FOLLOWERS), STOCK: MergeLane(stock, [TABLE])}
        yield IdleStage(source, pipeline, lanes, sizes)


ONE_PIPELINE = Goal(
    "idle",
    "`cdc follow` with nothing to do, and the parts beside it",
    "≤ 10 % of a core, memory ≤ 1.5 GiB; parts ≤ 10 % together",
    (OURS, STOCK),
    (JOB, PARTS, CONNECT, MEMORY, PARTS_MEMORY),
    (Limit("job", 10.0), Limit("memory", 1536.0), Limit("parts", 10.0)),
    {
        Scale.SMALL: {"rows": 1_000, "pipelines": 1, "settle": 10, "seconds": 20},
        Scale.FULL: {"rows": 1_000_000, "pipelines": 1, "settle": 30, "seconds": 60},
    },
    stage,
)
FOUR_PIPELINES = replace(
    ONE_PIPELINE,
    name="idle-four",
    title="The same with the connectors of four idle pipelines",
    asked="parts ≤ 10 % together",
    limits=(Limit("parts", 10.0),),
    sizes={scale: {**sizes, "pipelines": 4} for scale, sizes in ONE_PIPELINE.sizes.items()},
)
