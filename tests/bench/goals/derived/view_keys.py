"""What the size of its tables adds to the cost of a view's cut, with the same number of changed rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.derived.view_lane import ViewLane
from tests.bench.goals.lane import opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import by_postgres
from tests.bench.world.derived.shop import Shop, ShopTables, shop_of
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.visible import cuts_seen

LARGE, SMALL = f"{OURS}, large", f"{OURS}, small"
SUFFIXES = {LARGE: "large", SMALL: "small"}
TABLES = {side: ShopTables(f"_{suffix}") for side, suffix in SUFFIXES.items()}
VIEWS = {side: f"card_{suffix}" for side, suffix in SUFFIXES.items()}
APPLY = Measure("apply", "a cut, from the log to the views' newest (median)", "s")
VIEW = Measure("view", "a cut, from the lake's newest to the views' (median)", "s")


@dataclass(frozen=True, slots=True)
class ViewKeysStage:
    """A small and a large shop in one pipeline, with a card of each; a run changes orders of one."""

    shop: Shop
    pipeline: Pipeline
    lanes: Mapping[str, ViewLane]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        orders, keys = TABLES[side].orders, self.sizes[SUFFIXES[side]]
        applied, viewed = list[float](), list[float]()
        with (
            cuts_seen(self.pipeline.cuts) as lake,
            opened(self.lanes[side], self.shop, self.pipeline, [orders]) as lane,
        ):
            for _ in range(self.sizes["warm"]):
                lane.wait(self.shop.batch(orders, keys, self.sizes["changes"]).xid)
            with self.pipeline.meter.window() as window:
                for _ in range(self.sizes["batches"]):
                    end, seen = lane.wait(self.shop.batch(orders, keys, self.sizes["changes"]).xid)
                    applied.append(seen - end.appended)
                    viewed.append(seen - lake.seen_at([end.commit])[0])
        samples = {
            name: list(zip(map(float, range(len(values))), values, strict=True))
            for name, values in (("apply", applied), ("view", viewed))
        }
        values = {"apply": median(applied), "view": median(viewed), **taken(window.usage)}
        return Readings(values, window.usage, samples)

    def differences(self, side: str) -> list[str]:
        with self.shop.source.connection() as connection:
            return differences(VIEWS[side], by_postgres(connection, TABLES[side]), self.lanes[side].contents(""))


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewKeysStage]:
    """Both shops, and a card of each."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewkeys", {TABLES[side]: sizes[SUFFIXES[side]] for side in SUFFIXES})
        settings = cards.view_settings({VIEWS[side]: cards.card(TABLES[side]) for side in SUFFIXES})
        tables = [table for side in SUFFIXES for table in TABLES[side].both]
        pipeline = ground.pipeline(shop.source, tables, settings=settings)
        pipeline.bootstrap()
        lanes = {side: ViewLane(pipeline, [VIEWS[side]]) for side in SUFFIXES}
        yield ViewKeysStage(shop, pipeline, lanes, sizes)


VIEW_KEYS = Goal(
    "view-keys",
    "A view's cut with 1,000 random orders changed: large tables against small ones",
    "10 M orders against 1 M: ≤ 1.5",
    (LARGE, SMALL),
    (APPLY, VIEW, CPU, JOB_CPU, MEMORY),
    (Limit("apply", 1.5, side=LARGE, per=SMALL), Limit("view", 1.5, side=LARGE, per=SMALL)),
    {
        Scale.SMALL: {"large": 300_000, "small": 30_000, "changes": 1_000, "batches": 10, "warm": 3},
        Scale.FULL: {"large": 10_000_000, "small": 1_000_000, "changes": 1_000, "batches": 30, "warm": 10},
    },
    stage,
    ratios=((LARGE, SMALL),),
)
