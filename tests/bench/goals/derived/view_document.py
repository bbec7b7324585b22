"""How long after its commit a change is found in a view's nested document, beside the view in the lake."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.derived.view_lane import CARD, ViewLane
from tests.bench.goals.lag import noted
from tests.bench.goals.lane import CATCH_UP_SECONDS
from tests.bench.goals.measures import CPU, DRIFT, JOB_CPU, LATENCIES, MEMORY, UNSEEN, latencies, of_latencies, taken
from tests.bench.ground import Ground
from tests.bench.world import search
from tests.bench.world.contents import differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN, by_postgres
from tests.bench.world.derived.shop import Shop, shop_of
from tests.bench.world.derived.views import VIEWS, view_cuts
from tests.bench.world.jobs import Job
from tests.bench.world.ledger import ledger
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.visible import PlaceSight, cuts_seen
from tests.support.waiting import until

SEARCH = "search"
FOLLOWERS = (LAKE, VIEWS, SEARCH)
VIEW_P99 = Measure("view_p99", "p99 of the view in the lake", "s")
BEYOND = Measure("beyond_view", "p99 above that of the view in the lake", "s")


def writer_numbers(sizes: Sizes) -> range:
    """The writers of the pace are counted from one; 0 are single changes beside it."""
    return range(sizes["writers"] + 1)


def place_columns(writers: Iterable[int]) -> str:
    """For each writer, its highest place among the orders of a card, so that a search can ask for it."""
    return ", ".join(f"max(CASE WHEN o.writer = {n} THEN o.seq END) AS {search.place_field(n)}" for n in writers)


@dataclass(frozen=True, slots=True)
class ViewDocumentStage:
    """A shop, and its cards in the lake and as documents of an index."""

    shop: Shop
    pipeline: Pipeline
    lane: ViewLane
    sizes: Sizes
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def run(self, side: str) -> Readings:
        numbers = writer_numbers(self.sizes)
        with (
            cuts_seen(view_cuts(self.pipeline)) as cuts,
            search.highest_seen(self.pipeline.parts.search, self._index, numbers, self.places) as sight,
            self.lane.running() as job,
        ):
            self._paced_and_found(self.sizes["warm"], job, sight)
            with ledger(self.shop.source) as book:
                with self.pipeline.meter.window() as window:
                    self._paced_and_found(self.sizes["seconds"], job, sight)
                commits = noted(self.shop.source, book.commits())
            samples = {
                "p50": latencies(commits, sight.seen_at(commits)),
                "view_p99": latencies(commits, cuts.seen_at(commits)),
            }
        values = {**of_latencies(samples["p50"], len(commits)), **taken(window.usage)}
        values["view_p99"] = of_latencies(samples["view_p99"], len(commits))["p99"]
        values["beyond_view"] = values["p99"] - values["view_p99"]
        return Readings(values, window.usage, samples)

    def differences(self, side: str) -> list[str]:
        found = (hit["_source"] for hit in search.documents(self.pipeline.parts.search, self._index))
        with self.shop.source.connection() as connection:
            truth = by_postgres(connection)
        in_index = differences("the index", truth, cards.in_documents(found))
        return [*differences(CARD, truth, self.lane.contents("")), *in_index]

    @property
    def _index(self) -> str:
        return f"{self.pipeline.name}-{cards.SCHEMA}-{CARD}"

    def _paced_and_found(self, seconds: float, job: Job, sight: PlaceSight) -> None:
        """Write for so long, and wait until the last of every writer is found."""
        source, sizes = self.shop.source, self.sizes
        source.forget_notes()
        source.pace(PLAIN.orders, sizes["orders"], sizes["rate"], seconds, sizes["writers"])
        self.places.update(source.notes())
        # a change of a name has no place of its own, and may come behind the last one that has
        self.shop.touch([PLAIN.orders])
        last = self.shop.last_places(PLAIN.orders)
        until(
            lambda: (
                all(sight.reached(writer, place) for writer, place in last.items())
                or job.check()
                or sight.watching.check()
            ),
            "the last changes are found",
            CATCH_UP_SECONDS,
        )


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewDocumentStage]:
    """A shop, and a pipeline whose index holds its card and nothing else."""
    with ground.parts() as parts:
        shop = shop_of(ground, parts, "viewdoc", {PLAIN: sizes["orders"]})
        statement = cards.card(more=place_columns(writer_numbers(sizes)))
        held = {"followers": {SEARCH: {"tables": [f"{cards.SCHEMA}.{CARD}"]}}}
        settings = {**cards.view_settings({CARD: statement}), **held}
        pipeline = ground.pipeline(shop.source, PLAIN.both, (LAKE, SEARCH), settings=settings)
        pipeline.bootstrap()
        yield ViewDocumentStage(shop, pipeline, ViewLane(pipeline, followers=FOLLOWERS), sizes)


VIEW_DOCUMENT = Goal(
    "view-document",
    "Commit to found in a nested document, beside the view in the lake",
    "p99 ≤ the view's p99 + 1 s",
    (OURS,),
    (LATENCIES[2], VIEW_P99, BEYOND, LATENCIES[0], LATENCIES[1], LATENCIES[3], DRIFT, UNSEEN, CPU, JOB_CPU, MEMORY),
    (Limit("beyond_view", 1.0),),
    {
        Scale.SMALL: {"orders": 20_000, "rate": 200, "writers": 4, "warm": 10, "seconds": 20},
        Scale.FULL: {"orders": 1_000_000, "rate": 1000, "writers": 4, "warm": 60, "seconds": 120},
    },
    stage,
)
