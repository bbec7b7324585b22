"""How long the first fill of a view takes, beside Spark's plain CREATE TABLE AS of the same statement."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.goal import OURS, Failed, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.derived.view_lane import CARD, ViewLane
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import Contents, differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN
from tests.bench.world.derived.shop import shop_of
from tests.bench.world.derived.views import view_cuts
from tests.bench.world.jobs import run, stock_command
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.stock import SMALL_TABLES
from tests.bench.world.visible import newest_cut

PLAIN_TABLE = "CREATE TABLE AS"
FILL = Measure("fill", "the fill, without the start of Spark", "s")
WHOLE = Measure("whole", "the whole command", "s")
_TOLD = re.compile(r"rows computed in ([\d.]+) s")


def told_seconds(said: str) -> float:
    """How long the last fill took, by what `cdc follow` said; raises Failed when it said nothing of one."""
    found = _TOLD.findall(said)
    if not found:
        raise Failed("no view was filled")
    return float(found[-1])


@dataclass(frozen=True, slots=True)
class ViewFillStage:
    """A shop that nobody writes to; every run fills a card anew."""

    pipeline: Pipeline
    jars: list[str]
    leader: Contents

    def run(self, side: str) -> Readings:
        if side != OURS:
            shutil.rmtree(self._folder, ignore_errors=True)
        with self.pipeline.meter.window() as window:
            seconds = self._ours() if side == OURS else self._plain()
        values = taken(window.usage)
        return Readings({**values, "fill": seconds, "whole": values["seconds"]}, window.usage)

    def differences(self, side: str) -> list[str]:
        found = ViewLane(self.pipeline).contents("") if side == OURS else cards.in_delta(self._folder)
        return differences(CARD, self.leader, found)

    def _ours(self) -> float:
        self.pipeline.verb("rebuild", f"{cards.SCHEMA}.{CARD}")
        return told_seconds((self.pipeline.work / "once.err").read_text())

    def _plain(self) -> float:
        cut = newest_cut(view_cuts(self.pipeline))
        settings = {
            "jars": self.jars,
            "conf": SMALL_TABLES,
            "tables": {name: (str(self.pipeline.folder(name)), cut[f"public.{name}"]) for name in PLAIN.both},
            "statements": {str(self._folder): cards.without_schema(cards.card())},
        }
        work = self.pipeline.work / "plain"
        seconds: float = run(self.pipeline.meter, stock_command("fill_job", settings, work), work).json()["seconds"]
        return seconds

    @property
    def _folder(self) -> Path:
        return self.pipeline.lake.with_name(f"{self.pipeline.name}-plain") / CARD


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewFillStage]:
    """A shop, and a pipeline with its card."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewfill", {PLAIN: sizes["orders"]})
        pipeline = ground.pipeline(shop.source, PLAIN.both, settings=cards.view_settings({CARD: cards.card()}))
        pipeline.bootstrap()
        with shop.source.connection() as connection:
            leader = cards.by_postgres(connection)
        yield ViewFillStage(pipeline, pipeline.jars(), leader)


VIEW_FILL = Goal(
    "view-fill",
    "The first fill of a view, beside Spark's plain CREATE TABLE AS",
    "10 M orders: ≤ 1.2 of Spark's",
    (OURS, PLAIN_TABLE),
    (FILL, WHOLE, CPU, JOB_CPU, MEMORY),
    (Limit("fill", 1.2, per=PLAIN_TABLE),),
    {Scale.SMALL: {"orders": 300_000}, Scale.FULL: {"orders": 10_000_000}},
    stage,
)
