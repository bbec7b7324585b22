"""What ten views take while nothing happens, and the bytes of their secondary indexes."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.goals.derived.view_lane import AloneLane, ViewLane
from tests.bench.goals.idle import JOB, MEMORY
from tests.bench.goals.lane import Lane, opened
from tests.bench.goals.measures import JOB_ROLES, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN, by_postgres
from tests.bench.world.derived.shop import ORDERS_EACH, Shop, shop_of
from tests.bench.world.derived.views import index_folder
from tests.bench.world.pipeline import Pipeline

ALONE = "lake alone"
VIEWS = 10
CHANGES = 1_000
MORE = Measure("more", "the job, of one core, above that of the lake alone", "%")
INDEX_BYTES = Measure("index_bytes", "secondary indexes, a row of each", "bytes")
COPY_BYTES = Measure("copy_bytes", "copies of rows beside them, a row of the tables", "bytes")
ROWS = "rows"
"""The folder of the copies of a table's rows, beside those of its indexes."""


@dataclass(frozen=True, slots=True)
class ViewIdleStage:
    """Ten views that have caught up, each of a tenth of the customers, and nobody who writes."""

    shop: Shop
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes
    jobs: dict[str, float] = field(default_factory=dict)
    """By side, what the job of the last run took."""

    def run(self, side: str) -> Readings:
        rest = threading.Event().wait
        with opened(self.lanes[side], self.shop, self.pipeline, [PLAIN.orders]) as lane:
            # an index is made when a view first asks for rows
            lane.wait(self.shop.batch(PLAIN.orders, self.sizes["orders"], CHANGES).xid)
            rest(self.sizes["settle"])
            with self.pipeline.meter.window() as window:
                rest(self.sizes["seconds"])
        self.jobs[side] = job_percent(window.usage)
        values = {"job": self.jobs[side], "memory": taken(window.usage)["memory"]}
        return Readings(values | (self._of_views() if side == OURS else {}), window.usage)

    def differences(self, side: str) -> list[str]:
        with self.shop.source.connection() as connection:
            return differences("the cards", by_postgres(connection), self.lanes[side].contents(""))

    def _of_views(self) -> dict[str, float]:
        tables = {PLAIN.orders: self.sizes["orders"], PLAIN.customers: self.sizes["orders"] // ORDERS_EACH}
        folders = {name: index_folder(self.pipeline) / "public" / name for name in tables}
        found = index_bytes([(folders[name], rows) for name, rows in tables.items()])
        return found | ({"more": self.jobs[OURS] - self.jobs[ALONE]} if ALONE in self.jobs else {})


def job_percent(usage: Usage) -> float:
    """What the job took, of one core."""
    return 100 * sum(usage.cpu.get(role, 0.0) for role in JOB_ROLES) / usage.seconds


def index_bytes(tables: "list[tuple[Path, int]]") -> dict[str, float]:
    """Bytes a row of the indexes that these folders (with the rows of each table) hold, and of the copies of rows."""
    indexed = [(index, rows) for folder, rows in tables for index in folder.iterdir() if index.name != ROWS]
    whole = sum(_size(index) for index, _ in indexed) / sum(rows for _, rows in indexed)
    copies = sum(_size(folder / ROWS) for folder, _ in tables) / sum(rows for _, rows in tables)
    return {"index_bytes": whole, "copy_bytes": copies}


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewIdleStage]:
    """A shop, and ten views that together are its cards."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewidle", {PLAIN: sizes["orders"]})
        views = {f"card_{n}": cards.card(where=f"c.id % {VIEWS} = {n}") for n in range(VIEWS)}
        pipeline = ground.pipeline(shop.source, PLAIN.both, settings=cards.view_settings(views))
        pipeline.bootstrap()
        lanes: dict[str, Lane] = {ALONE: AloneLane(pipeline), OURS: ViewLane(pipeline, list(views))}
        yield ViewIdleStage(shop, pipeline, lanes, sizes)


VIEW_IDLE = Goal(
    "view-idle",
    "Ten views with nothing to do, and their secondary indexes",
    "≤ 2 % of a core more than none; ≤ 26 bytes a row of each index",
    (ALONE, OURS),
    (JOB, MORE, INDEX_BYTES, COPY_BYTES, MEMORY),
    (Limit("more", 2.0), Limit("index_bytes", 26.0)),
    {
        Scale.SMALL: {"orders": 100_000, "settle": 10, "seconds": 30},
        Scale.FULL: {"orders": 1_000_000, "settle": 30, "seconds": 120},
    },
    stage,
)
