"""What the size of a table adds to the cost of a batch of random keys."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes, size_of
from tests.bench.goals.lane import LakeLane, Lane, MergeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import stock_of

LARGE, SMALL = f"{OURS}, large", f"{OURS}, small"
STOCK_LARGE, STOCK_SMALL = f"{STOCK}, large", f"{STOCK}, small"
TABLES = {LARGE: "large", SMALL: "small", STOCK_LARGE: "large", STOCK_SMALL: "small"}
APPLY = Measure("apply", "a batch, from the log to where it is seen (median)", "s")
VISIBLE = Measure("visible", "a batch, from its commit to where it is seen (median)", "s")


@dataclass(frozen=True, slots=True)
class KeysStage:
    """Two tables in one pipeline, and a stock copy of each; a run writes to one of them."""

    source: Source
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        table = TABLES[side]
        keys = self.sizes[table]
        applied: list[float] = []
        with opened(self.lanes[side], self.source, self.pipeline, [table]) as lane:
            for _ in range(size_of(self.sizes, "warm", side)):
                lane.wait(self.source.batch(table, keys, self.sizes["changes"]).xid)
            with self.pipeline.meter.window() as window:
                for _ in range(size_of(self.sizes, "batches", side)):
                    end, seen = lane.wait(self.source.batch(table, keys, self.sizes["changes"]).xid)
                    applied.append(seen - end.appended)
        samples = list(zip(map(float, range(len(applied))), applied, strict=True))
        return Readings({"apply": median(applied), **taken(window.usage)}, window.usage, {"apply": samples})

    def differences(self, side: str) -> list[str]:
        return compared(self.source, self.lanes[side], [TABLES[side]])


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[KeysStage]:
    """Both tables and all copies."""
    tables = {"large": sizes["large"], "small": sizes["small"]}
    with ground.parts() as parts:
        source = ground.source(parts, "keys", tables)
        pipeline = ground.pipeline(source, list(tables))
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        stock.copy(tables)
        ours = LakeLane(pipeline)
        stocks = {name: MergeLane(stock, [table], table) for name, table in TABLES.items() if name.startswith(STOCK)}
        yield KeysStage(source, pipeline, {LARGE: ours, SMALL: ours, **stocks}, sizes)


RANDOM_KEYS = Goal(
    "keys",
    "A batch of random keys: a large table against a small one",
    "10 k keys, 30 M rows against 1 M: ≤ 1.5",
    (LARGE, SMALL, STOCK_LARGE, STOCK_SMALL),
    (APPLY, CPU, JOB_CPU, MEMORY),
    (Limit("apply", 1.5, side=LARGE, per=SMALL),),
    {
        Scale.SMALL: {
            "large": 300_000,
            "small": 10_000,
            "changes": 1_000,
            "batches": 4,
            "warm": 1,
            "stock_batches": 4,
            "stock_warm": 1,
        },
        Scale.FULL: {
            "large": 30_000_000,
            "small": 1_000_000,
            "changes": 10_000,
            "batches": 20,
            "warm": 5,
            "stock_batches": 3,
            "stock_warm": 1,
        },
    },
    stage,
    ratios=((LARGE, SMALL), (STOCK_LARGE, STOCK_SMALL), (LARGE, STOCK_LARGE)),
)
