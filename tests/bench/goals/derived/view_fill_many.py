"""How long the first fill of many small views takes, beside Spark's plain CREATE TABLE AS of each."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.goal import OURS, Goal, Limit, Readings, Scale, Sizes
from tests.bench.goals.derived.view_fill import PLAIN_TABLE, WHOLE
from tests.bench.goals.derived.view_lane import ViewLane
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import Contents, differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN
from tests.bench.world.derived.shop import shop_of
from tests.bench.world.jobs import run, stock_command
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.stock import SMALL_TABLES
from tests.bench.world.visible import newest_cut


def define_cards(count: int) -> dict[str, str]:
    """Cards that differ. Every second one has `initcap`, so that Spark computes it for us, too."""
    more = [f"initcap(c.name) AS titled, {n} AS n" if n % 2 else f"{n} AS n" for n in range(count)]
    return {f"card{n}": cards.card(more=columns) for n, columns in enumerate(more)}


@dataclass(frozen=True, slots=True)
class ManyViewsStage:
    """A shop that nobody writes to; every run fills its views anew."""

    pipeline: Pipeline
    views: Mapping[str, str]
    jars: list[str]
    leader: Contents

    def run(self, side: str) -> Readings:
        lost = [self.pipeline.lake / cards.SCHEMA, self.pipeline.lake / "_cdc" / "views"]
        for folder in lost if side == OURS else [self._folder]:
            shutil.rmtree(folder, ignore_errors=True)
        with self.pipeline.meter.window() as window:
            if side == OURS:
                self.pipeline.bootstrap()
            else:
                self._plain()
        values = taken(window.usage)
        return Readings({**values, "whole": values["seconds"]}, window.usage)

    def differences(self, side: str) -> list[str]:
        if side == OURS:
            found = ViewLane(self.pipeline, [*self.views]).contents("")
        else:
            found = cards.added(cards.in_delta(self._folder / name) for name in self.views)
        return differences("cards", self.leader, found)

    def _plain(self) -> None:
        cut = newest_cut(self.pipeline.cuts)
        settings = {
            "jars": self.jars,
            "conf": SMALL_TABLES,
            "tables": {name: (str(self.pipeline.folder(name)), cut[f"public.{name}"]) for name in PLAIN.both},
            "statements": {
                str(self._folder / name): cards.without_schema(statement) for name, statement in self.views.items()
            },
        }
        work = self.pipeline.work / "plain"
        run(self.pipeline.meter, stock_command("fill_job", settings, work), work)

    @property
    def _folder(self) -> Path:
        return self.pipeline.lake.with_name(f"{self.pipeline.name}-plain")


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ManyViewsStage]:
    """A small shop, and a pipeline with many views."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewfillmany", {PLAIN: sizes["orders"]})
        views = define_cards(sizes["views"])
        pipeline = ground.pipeline(shop.source, PLAIN.both, settings=cards.view_settings(views))
        pipeline.bootstrap()
        with shop.source.connection() as connection:
            leader = cards.added([cards.by_postgres(connection)] * len(views))
        yield ManyViewsStage(pipeline, views, pipeline.jars(), leader)


VIEW_FILL_MANY = Goal(
    "view-fill-many",
    "The first fill of many small views, half of them by Spark, beside Spark's plain CREATE TABLE AS of each",
    "60 views over 30 orders: ≤ 60 s",
    (OURS, PLAIN_TABLE),
    (WHOLE, CPU, JOB_CPU, MEMORY),
    (Limit("whole", 60.0),),
    {Scale.SMALL: {"views": 60, "orders": 30}, Scale.FULL: {"views": 60, "orders": 30}},
    stage,
)
