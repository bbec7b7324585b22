"""What many tables cost: changes in all of them at once, and idle ones beside a busy one."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.bench.arithmetic import Sample
from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes, size_of
from tests.bench.goals.lane import LakeLane, Lane, MergeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.meter.meter import Meter
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import stock_of

ALONE, BESIDE = "alone", "beside idle tables"
APPLY = Measure("apply", "one transaction, from the log to where it is seen (median)", "s")
VISIBLE = Measure("visible", "the same from its commit on (median)", "s")


@dataclass(frozen=True, slots=True)
class Setting:
    """A side's lane, its pipeline, and the tables that are written to."""

    lane: Lane
    pipeline: Pipeline
    source: Source
    busy: Sequence[str]


@dataclass(frozen=True, slots=True)
class TablesStage:
    """One transaction over the busy tables, time and again; the next when the one before is seen."""

    meter: Meter
    settings: Mapping[str, Setting]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        s = self.settings[side]
        with opened(s.lane, s.source, s.pipeline, s.busy) as lane:
            for _ in range(size_of(self.sizes, "warm", side)):
                lane.wait(self._write(s))
            applied: list[Sample] = []
            visible: list[float] = []
            with self.meter.window() as window:
                for _ in range(size_of(self.sizes, "rounds", side)):
                    xid, committed = self._write(s), time.time()
                    end, seen = lane.wait(xid)
                    applied.append((end.appended, seen - end.appended))
                    visible.append(seen - committed)
        values = {"apply": median(seconds for _, seconds in applied), "visible": median(visible)}
        return Readings(values | taken(window.usage), window.usage, {"apply": applied})

    def differences(self, side: str) -> list[str]:
        s = self.settings[side]
        return compared(s.source, s.lane, s.busy)

    def _write(self, setting: Setting) -> int:
        return setting.source.spread(setting.busy, self.sizes["rows"], self.sizes["changes"]).xid


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[TablesStage]:
    """All tables in one pipeline, all of them busy, and a stock copy of each."""
    with ground.parts() as parts:
        tables = _tables(sizes)
        source = ground.source(parts, "tables", tables)
        pipeline = ground.pipeline(source, list(tables))
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        stock.copy(tables)
        lanes: Mapping[str, Lane] = {OURS: LakeLane(pipeline), STOCK: MergeLane(stock, list(tables))}
        settings = {side: Setting(lane, pipeline, source, list(tables)) for side, lane in lanes.items()}
        yield TablesStage(ground.meter, settings, sizes)


@contextmanager
def idle_stage(ground: Ground, sizes: Sizes) -> Iterator[TablesStage]:
    """Two pipelines: one busy table alone, and one beside idle ones."""
    with ground.parts() as parts:
        many = _tables(sizes)
        busy = next(iter(many))
        settings: dict[str, Setting] = {}
        for side, name, tables in ((ALONE, "one", {busy: many[busy]}), (BESIDE, "many", many)):
            source = ground.source(parts, name, tables)
            pipeline = ground.pipeline(source, list(tables))
            pipeline.bootstrap()
            settings[side] = Setting(LakeLane(pipeline), pipeline, source, [busy])
        yield TablesStage(ground.meter, settings, sizes)


def _tables(sizes: Sizes) -> dict[str, int]:
    return {f"t{number:03}": sizes["rows"] for number in range(sizes["tables"])}


MEASURES = (APPLY, VISIBLE, CPU, JOB_CPU, MEMORY)

MANY_TABLES = Goal(
    "tables",
    "Changes in many tables at once",
    "200 tables with 100 changes each: ≤ 2 s",
    (OURS, STOCK),
    MEASURES,
    (Limit("apply", 2.0),),
    {
        Scale.SMALL: {
            "tables": 10,
            "rows": 1_000,
            "changes": 20,
            "rounds": 2,
            "warm": 1,
            "stock_rounds": 2,
            "stock_warm": 1,
        },
        # of MERGE's minutes a round, one that waits for its start is warm enough
        Scale.FULL: {
            "tables": 200,
            "rows": 10_000,
            "changes": 100,
            "rounds": 10,
            "warm": 3,
            "stock_rounds": 1,
            "stock_warm": 0,
        },
    },
    stage,
)
IDLE_TABLES = Goal(
    "tables-idle",
    "A busy table, alone and beside idle ones",
    "199 idle tables: ≤ 20 % on a turn",
    (ALONE, BESIDE),
    MEASURES,
    (Limit("apply", 1.2, side=BESIDE, per=ALONE),),
    {
        Scale.SMALL: {"tables": 10, "rows": 1_000, "changes": 1, "rounds": 5, "warm": 2},
        Scale.FULL: {"tables": 200, "rows": 10_000, "changes": 100, "rounds": 50, "warm": 10},
    },
    idle_stage,
    ratios=((BESIDE, ALONE),),
)
