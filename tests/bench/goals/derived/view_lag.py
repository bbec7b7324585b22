"""How long after its commit a change is in the views' newest cut, and what that costs, at a thousand a second."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.goals.derived.view_lane import CARD, REFRESH, AloneLane, RefreshLane, ViewLane, WholeLane
from tests.bench.goals.lag import noted
from tests.bench.goals.lane import Lane, opened
from tests.bench.goals.measures import (
    CPU,
    DRIFT,
    JOB_CPU,
    JOB_ROLES,
    LATENCIES,
    MEMORY,
    UNSEEN,
    latencies,
    of_latencies,
    taken,
)
from tests.bench.ground import Ground
from tests.bench.world.contents import differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN, by_postgres
from tests.bench.world.derived.shop import Shop, shop_of
from tests.bench.world.ledger import ledger
from tests.bench.world.pipeline import Pipeline

ALONE, POSTGRES, SPARK = "lake alone", "Postgres REFRESH", "Spark, whole"
VIEW_CPU = Measure("view_cpu", "CPU of keeping the view: ours above the lake alone", "s")
REFRESHES = Measure("refreshes", "times that the view was brought up to date", "", more_is_better=True)
EACH_CPU = Measure("each_cpu", "CPU of each of these", "s")
LESS_THAN_POSTGRES = Measure("less_postgres", "times less CPU for the view than Postgres", "", more_is_better=True)
LESS_THAN_SPARK = Measure("less_spark", "times less CPU for the view than Spark", "", more_is_better=True)
EACH_LESS_THAN_POSTGRES = Measure(
    "each_less_postgres", "times less CPU each time than Postgres", "", more_is_better=True
)
EACH_LESS_THAN_SPARK = Measure("each_less_spark", "times less CPU each time than Spark", "", more_is_better=True)
COMPARED = {POSTGRES: (LESS_THAN_POSTGRES, EACH_LESS_THAN_POSTGRES), SPARK: (LESS_THAN_SPARK, EACH_LESS_THAN_SPARK)}


@dataclass(frozen=True, slots=True)
class Kept:
    """What keeping a view has taken: CPU seconds, and how often it was brought up to date."""

    seconds: float
    times: int

    @property
    def each(self) -> float:
        return self.seconds / self.times if self.times else math.nan


def of_job(usage: Usage) -> float:
    """CPU seconds of `cdc follow`: a view asks nothing of the parts, whose seconds differ from run to run by more."""
    return sum(usage.cpu.get(role, 0.0) for role in JOB_ROLES)


def less(ours: Kept, others: Mapping[str, Kept]) -> dict[str, float]:
    """How many times less CPU than each of the others, in all and each time; nothing where ours cannot be told."""
    found = dict[str, float]()
    for side, (in_all, each) in COMPARED.items():
        if side in others and ours.seconds > 0:
            found[in_all.name] = others[side].seconds / ours.seconds
            found[each.name] = others[side].each / ours.each
    return found


@dataclass(frozen=True, slots=True)
class ViewLagStage:
    """All sides over the same source; one of them runs at a time, and catches up first. Ours runs last in a pair."""

    shop: Shop
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes
    kept: dict[str, Kept] = field(default_factory=dict)
    """By side, of the last run."""

    def run(self, side: str) -> Readings:
        source = self.shop.source
        with opened(self.lanes[side], self.shop, self.pipeline, [PLAIN.orders]) as lane:
            self._pace(self.sizes["warm"])
            lane.touch()
            source.forget_notes()
            with ledger(source) as book:
                # only while it is written to: the last refresh of the others takes more or less long
                with self.pipeline.meter.window() as window:
                    self._pace(self.sizes["seconds"])
                lane.touch()
                commits = noted(source, book.commits())
            samples = latencies(commits, lane.sight.seen_at(commits))
        values = {**of_latencies(samples, len(commits)), **taken(window.usage)}
        times = len({at + seconds for at, seconds in samples})
        return Readings({**values, **self._costs(side, window.usage, times)}, window.usage, {"p50": samples})

    def differences(self, side: str) -> list[str]:
        with self.shop.source.connection() as connection:
            return differences(CARD, by_postgres(connection), self.lanes[side].contents(PLAIN.orders))

    def _costs(self, side: str, usage: Usage, times: int) -> dict[str, float]:
        if side == ALONE:
            self.kept[side] = Kept(of_job(usage), times)
            return {}
        if side != OURS:
            kept = Kept(usage.cpu.get(REFRESH, 0.0), times)
        elif ALONE in self.kept:
            kept = Kept(of_job(usage) - self.kept[ALONE].seconds, times)
        else:
            return {"refreshes": times}
        self.kept[side] = kept
        values = {"view_cpu": kept.seconds, "refreshes": kept.times, "each_cpu": kept.each}
        return {**values, **(less(kept, self.kept) if side == OURS else {})}

    def _pace(self, seconds: float) -> None:
        sizes = self.sizes
        self.shop.source.pace(PLAIN.orders, sizes["orders"], sizes["rate"], seconds, sizes["writers"])


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewLagStage]:
    """A shop, a pipeline with its card, and the card as a materialized view."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewlag", {PLAIN: sizes["orders"]})
        settings = cards.view_settings({CARD: cards.card()})
        pipeline = ground.pipeline(shop.source, PLAIN.both, settings=settings)
        pipeline.bootstrap()
        refreshed = RefreshLane(pipeline)
        refreshed.prepare()
        lanes: dict[str, Lane] = {
            ALONE: AloneLane(pipeline),
            POSTGRES: refreshed,
            SPARK: WholeLane(pipeline, pipeline.jars()),
            OURS: ViewLane(pipeline),
        }
        yield ViewLagStage(shop, pipeline, lanes, sizes)


VIEW_LAG = Goal(
    "view-lag",
    "Commit to the views' newest cut, 1,000 single-row transactions a second",
    "1 M orders of 100 k customers: p50 ≤ 1 s, p99 ≤ 3 s; at least 20 times less CPU than each other side",
    (ALONE, POSTGRES, SPARK, OURS),
    (
        *LATENCIES,
        VIEW_CPU,
        LESS_THAN_POSTGRES,
        LESS_THAN_SPARK,
        REFRESHES,
        EACH_CPU,
        EACH_LESS_THAN_POSTGRES,
        EACH_LESS_THAN_SPARK,
        DRIFT,
        UNSEEN,
        CPU,
        JOB_CPU,
        MEMORY,
    ),
    (
        Limit("p50", 1.0),
        Limit("p99", 3.0),
        Limit("less_postgres", 20.0),
        Limit("less_spark", 20.0),
        # in all, the others take a core or less, however large the tables are: so each time, too
        Limit("each_less_postgres", 20.0),
        Limit("each_less_spark", 20.0),
    ),
    {
        Scale.SMALL: {"orders": 50_000, "rate": 500, "writers": 4, "warm": 5, "seconds": 15},
        Scale.FULL: {"orders": 1_000_000, "rate": 1000, "writers": 4, "warm": 30, "seconds": 120},
    },
    stage,
)
