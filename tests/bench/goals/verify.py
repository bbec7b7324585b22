"""What it takes to compare every row of the source with a copy: the lake, and the index and the latest log too."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import OURS, Failed, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, SECONDS, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import in_postgres
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import Stock, stock_of

TABLE = "orders"
FOLLOWERS = (LAKE, "search", "latest")
WITH_ALL, EXCEPT, HASHES = f"{OURS}, three followers", "Spark JDBC, exceptAll", "SELECT md5 in Postgres"
WITHOUT_START = Measure("work", "without the start of Spark", "s")


@dataclass(frozen=True, slots=True)
class VerifyStage:
    """Copies that have caught up with a source that nobody writes to."""

    source: Source
    pipeline: Pipeline
    stock: Stock
    sizes: Sizes

    def run(self, side: str) -> Readings:
        if side == EXCEPT:
            return self._except()
        if side == HASHES:
            with self.source.connection() as connection, self.pipeline.meter.window() as window:
                in_postgres(connection, TABLE)
            return Readings(taken(window.usage), window.usage)
        return self._ours(FOLLOWERS if side == WITH_ALL else (LAKE,))

    def differences(self, side: str) -> list[str]:
        return compared(self.source, LakeLane(self.pipeline), [TABLE]) if side in (OURS, WITH_ALL) else []

    def _ours(self, followers: tuple[str, ...]) -> Readings:
        """`cdc verify` beside a `cdc follow` that has caught up."""
        chosen = [f"--follower={name}" for name in followers]
        follow = opened(LakeLane(self.pipeline, FOLLOWERS), self.source, self.pipeline, [TABLE])
        with follow, self.pipeline.meter.window() as window:
            report = self.pipeline.verb("verify", *chosen, "--json").json()
        if not report["equal"]:
            raise Failed("verify found differences")
        return Readings(taken(window.usage), window.usage)

    def _except(self) -> Readings:
        # ours has touched a row since: the stock copy is taken again, outside of the window
        self.stock.copy({TABLE: self.sizes["rows"]})
        with self.pipeline.meter.window() as window:
            found = self.stock.compare({TABLE: self.sizes["rows"]}).json()
        if found["different"]:
            raise Failed(f"exceptAll found {found['different']} rows that differ")
        return Readings({"work": found["seconds"], **taken(window.usage)}, window.usage)


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[VerifyStage]:
    """One table in the lake, in an index and in a latest topic."""
    with ground.parts() as parts:
        source = ground.source(parts, "verify", {TABLE: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE], FOLLOWERS)
        pipeline.bootstrap()
        yield VerifyStage(source, pipeline, stock_of(pipeline, source), sizes)


VERIFY = Goal(
    "verify",
    "`cdc verify` of source and lake, and of three followers",
    "1 M rows: 10 s for three followers, without the start of Spark",
    (OURS, WITH_ALL, EXCEPT, HASHES),
    (SECONDS, WITHOUT_START, CPU, JOB_CPU, MEMORY),
    (Limit("seconds", 30.0), Limit("seconds", 60.0, side=WITH_ALL)),
    {Scale.SMALL: {"rows": 50_000}, Scale.FULL: {"rows": 1_000_000}},
    stage,
)
