"""How long after its commit a change is found by a search, at a thousand a second, beside the lake's own lag."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lag import TABLE, noted
from tests.bench.goals.lane import CATCH_UP_SECONDS, LakeLane
from tests.bench.goals.measures import CPU, DRIFT, JOB_CPU, LATENCIES, MEMORY, UNSEEN, latencies, of_latencies, taken
from tests.bench.ground import Ground
from tests.bench.meter.meter import Window
from tests.bench.world import bulk, search
from tests.bench.world.contents import differences, in_documents, in_postgres
from tests.bench.world.jobs import Job
from tests.bench.world.ledger import Commit, ledger
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import Stock, stock_of
from tests.bench.world.visible import CutSight, PlaceSight, cuts_seen
from tests.support.waiting import until

FOLLOWERS = (LAKE, "search")
BEYOND = [Measure(f"{name}_beyond_lake", f"{name} above the lake's {name}", "s") for name in ("p50", "p99")]


@dataclass(frozen=True, slots=True)
class SearchLagStage:
    """Both sides on the same topics, each with an index of its own; one runs at a time, and catches up first."""

    source: Source
    pipeline: Pipeline
    stock: Stock
    sizes: Sizes
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def run(self, side: str) -> Readings:
        with (
            cuts_seen(self.pipeline.cuts) as cuts,
            self._watched(side) as sight,
            self._running(side) as job,
        ):
            self._paced_and_found(self.sizes["warm"], job, sight)
            with ledger(self.source) as book:
                with self.pipeline.meter.window() as window:
                    self._paced_and_found(self.sizes["seconds"], job, sight)
                commits = noted(self.source, book.commits())
        return self._readings(side, commits, window, sight, cuts)

    def differences(self, side: str) -> list[str]:
        found = (hit["_source"] for hit in search.documents(self.pipeline.parts.search, self._index(side)))
        with self.source.connection() as connection:
            return differences("the index", in_postgres(connection, TABLE), in_documents(found))

    def _readings(
        self, side: str, commits: list[Commit], window: Window, sight: PlaceSight, cuts: CutSight
    ) -> Readings:
        samples = {"p50": latencies(commits, sight.seen_at(commits))}
        values = {**of_latencies(samples["p50"], len(commits)), **taken(window.usage)}
        if side == OURS:
            samples["lake"] = latencies(commits, cuts.seen_at(commits))
            lake = of_latencies(samples["lake"], len(commits))
            values.update({f"{name}_beyond_lake": values[name] - lake[name] for name in ("p50", "p99")})
        return Readings(values, window.usage, samples)

    def _watched(self, side: str) -> AbstractContextManager[PlaceSight]:
        url, writers = self.pipeline.parts.search, self.sizes["writers"]
        return search.places_seen(url, self._index(side), writers, self.places)

    def _running(self, side: str) -> AbstractContextManager[Job]:
        return LakeLane(self.pipeline, FOLLOWERS).running() if side == OURS else self.stock.indexing([TABLE])

    def _index(self, side: str) -> str:
        return self.pipeline.index(TABLE) if side == OURS else self.stock.index(TABLE)

    def _paced_and_found(self, seconds: float, job: Job, sight: PlaceSight) -> None:
        """Write for so long, and wait until the last of every writer is found."""
        self.source.forget_notes()
        self.source.pace(TABLE, self.sizes["rows"], self.sizes["rate"], seconds, self.sizes["writers"])
        self.places.update(self.source.notes())
        last = self.source.last_places(TABLE)
        until(
            lambda: (
                all(sight.reached(writer, place) for writer, place in last.items())
                or job.check()
                or sight.watching.check()
            ),
            f"{job.name} shows the last changes",
            CATCH_UP_SECONDS,
        )


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[SearchLagStage]:
    """One table, one pipeline with an index, and a second index of the same documents for the stock side."""
    with ground.parts() as parts:
        source = ground.source(parts, "found", {TABLE: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE], FOLLOWERS)
        pipeline.bootstrap()
        stock = stock_of(pipeline, source)
        ours, theirs = pipeline.index(TABLE), stock.index(TABLE)
        bulk.make_like(parts.search, ours, theirs)
        requests = bulk.requests(search.documents(parts.search, ours), lambda hit: str(hit["_source"]["id"]))
        bulk.send(parts.search, theirs, list(requests))
        yield SearchLagStage(source, pipeline, stock, sizes)


SEARCHABLE = Goal(
    "lag-search",
    "Commit to searchable, 1,000 single-row transactions a second",
    "p50 ≤ the lake's p50 + 0.3 s, p99 ≤ the lake's p99 + 0.6 s",
    (OURS, STOCK),
    (LATENCIES[2], *BEYOND, LATENCIES[0], LATENCIES[1], LATENCIES[3], DRIFT, UNSEEN, CPU, JOB_CPU, MEMORY),
    (Limit("p50_beyond_lake", 0.3), Limit("p99_beyond_lake", 0.6)),
    {
        Scale.SMALL: {"rows": 20_000, "rate": 200, "writers": 4, "warm": 10, "seconds": 20},
        Scale.FULL: {"rows": 1_000_000, "rate": 1000, "writers": 4, "warm": 60, "seconds": 600},
    },
    stage,
)
