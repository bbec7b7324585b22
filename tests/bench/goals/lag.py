"""How long after its commit a change is seen in the lake: at one change a second, and at a thousand."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import OURS, STOCK, Goal, Limit, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, Lane, MergeLane, compared, opened
from tests.bench.goals.measures import CPU, DRIFT, JOB_CPU, LATENCIES, MEMORY, UNSEEN, latencies, of_latencies, taken
from tests.bench.ground import Ground
from tests.bench.world.ledger import Commit, ledger
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import stock_of

TABLE = "orders"


@dataclass(frozen=True, slots=True)
class LagStage:
    """Both sides on the same topics; one of them runs at a time, and catches up first."""

    source: Source
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        with opened(self.lanes[side], self.source, self.pipeline, [TABLE]) as lane:
            self._pace(self.sizes["warm"])
            lane.touch()
            self.source.forget_notes()
            with ledger(self.source) as book:
                with self.pipeline.meter.window() as window:
                    self._pace(self.sizes["seconds"])
                    lane.touch()
                commits = noted(self.source, book.commits())
            samples = latencies(commits, lane.sight.seen_at(commits))
        values = {**of_latencies(samples, len(commits)), **taken(window.usage)}
        return Readings(values, window.usage, {"p50": samples})

    def differences(self, side: str) -> list[str]:
        return compared(self.source, self.lanes[side], [TABLE])

    def _pace(self, seconds: float) -> None:
        self.source.pace(TABLE, self.sizes["rows"], self.sizes["rate"], seconds, self.sizes["writers"])


def noted(source: Source, commits: list[Commit]) -> list[Commit]:
    """The commits of paced writers; heartbeats and markers are left out."""
    notes = source.notes()
    return [commit for commit in commits if commit.xid in notes]


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[LagStage]:
    """One table, one pipeline, and a stock copy."""
    with ground.parts() as parts:
        tables = {TABLE: sizes["rows"]}
        source = ground.source(parts, "lag", tables)
        pipeline = ground.pipeline(source, [TABLE])
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        stock.copy(tables)
        yield LagStage(source, pipeline, {OURS: LakeLane(pipeline), STOCK: MergeLane(stock, [TABLE])}, sizes)


MEASURES = (*LATENCIES, DRIFT, UNSEEN, CPU, JOB_CPU, MEMORY)

ONE_A_SECOND = Goal(
    "lag-1",
    "Commit to newest cut, one change a second",
    "1 M rows: p50 ≤ 0.7 s, p99 ≤ 1.5 s",
    (OURS, STOCK),
    MEASURES,
    (Limit("p50", 0.7), Limit("p99", 1.5)),
    {
        Scale.SMALL: {"rows": 50_000, "rate": 1, "writers": 1, "warm": 15, "seconds": 40},
        Scale.FULL: {"rows": 1_000_000, "rate": 1, "writers": 1, "warm": 60, "seconds": 600},
    },
    stage,
)
A_THOUSAND_A_SECOND = Goal(
    "lag-1000",
    "Commit to newest cut, 1,000 single-row transactions a second",
    "1 M rows: p50 ≤ 1 s, p99 ≤ 2.5 s, flat for 10 minutes",
    (OURS, STOCK),
    MEASURES,
    (Limit("p50", 1.0), Limit("p99", 2.5), Limit("drift", 0.25)),
    {
        Scale.SMALL: {"rows": 50_000, "rate": 1000, "writers": 4, "warm": 10, "seconds": 20},
        Scale.FULL: {"rows": 1_000_000, "rate": 1000, "writers": 4, "warm": 60, "seconds": 600},
    },
    stage,
)
