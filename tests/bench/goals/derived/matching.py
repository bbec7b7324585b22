"""How fast changed rows are matched with saved searches, beside a search for each of these."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import CATCH_UP_SECONDS, LakeLane, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.derived import matches
from tests.bench.world.derived.matches import SEARCHES, MatchTopic, Pairs
from tests.bench.world.jobs import Job
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source, Written

TABLE, FOLLOWER = "orders", "alerts"
BRUTE = "a search each"
MATCHED = Measure("matched", "from the lake's cut to the last match told; of a search each, all answers", "s")
TOLD = Measure("told", "from its end in the log to the last match told", "s")
EVENTS = Measure("events", "matches that began or ended", "")
ROWS = Measure("rows", "changed rows", "")


@dataclass(slots=True)
class MatchingStage:
    """A table that is written to by both sides; ours tells of it, and the searches ask the index that ours keeps."""

    source: Source
    pipeline: Pipeline
    sizes: Sizes
    queries: Sequence[tuple[int, Any]]
    there: Pairs = field(default_factory=set)
    """What ours has told by now."""
    found: Pairs = field(default_factory=set)
    """What the searches have found in the rows of the last transaction."""
    last: Written = field(default_factory=lambda: Written(0, 0))

    def run(self, side: str) -> Readings:
        lane = LakeLane(self.pipeline, (LAKE, FOLLOWER))
        topic = MatchTopic(self.source.parts.kafka, f"{self.pipeline.name}.{FOLLOWER}-matches")
        with closing(topic), opened(lane, self.source, self.pipeline, [TABLE]) as running:
            topic.wait_for(self._matching(), running.job, CATCH_UP_SECONDS)
            before = {*topic.there}
            with self.pipeline.meter.window() as told:
                self.last = self.source.spread([TABLE], self.sizes["rows"], self.sizes["changes"])
                end, cut_seen = running.wait(self.last.xid)
                topic.wait_for(self._matching(), running.job, CATCH_UP_SECONDS)
                last_told = time.time()
            self.there = topic.there
            counts = {"rows": float(self.last.changes), "events": float(len(before ^ self.there))}
            if side == OURS:
                values = {"matched": last_told - cut_seen, "told": last_told - end.commit.at, **taken(told.usage)}
                return Readings({**values, **counts}, told.usage)
            return self._search(running.job, counts)

    def _search(self, job: Job, counts: dict[str, float]) -> Readings:
        """Search with every query in the rows that have just changed."""
        url, index = self.source.parts.search, f"{self.pipeline.name}-{FOLLOWER}-public-{TABLE}"
        with self.pipeline.meter.window() as window:
            self.found = matches.by_searching(url, index, self.queries, self.last.xid)
        job.check()
        return Readings({"matched": window.usage.seconds, **taken(window.usage), **counts}, window.usage)

    def _matching(self) -> Pairs:
        with self.source.connection() as connection:
            return matches.in_postgres(connection)

    def differences(self, side: str) -> list[str]:
        with self.source.connection() as connection:
            expected = matches.in_postgres(connection, None if side == OURS else self.last.xid)
        got = self.there if side == OURS else self.found
        return [f"{len(expected ^ got):,} of {len(expected):,} matches differ"] if got != expected else []


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[MatchingStage]:
    """A table and saved searches, followed, and all matches told."""
    with ground.parts() as parts:
        source = ground.source(parts, "matching", {TABLE: sizes["rows"]})
        matches.save_searches(source, sizes["queries"])
        followed = {"table": f"public.{SEARCHES}", "column": "query"}
        alerts = {"kind": "percolator", "url": parts.search, "queries": followed, "tables": [f"public.{TABLE}"]}
        settings = {"followers": {FOLLOWER: alerts}}
        pipeline = ground.pipeline(source, [TABLE, SEARCHES], settings=settings)
        pipeline.bootstrap()
        with source.connection() as connection:
            queries = connection.execute(f"SELECT id, query FROM {SEARCHES}".encode()).fetchall()
        yield MatchingStage(source, pipeline, sizes, queries)


MATCHING = Goal(
    "matching",
    "A transaction's rows matched with saved searches, beside a search for each",
    "≤ a search each",
    (OURS, BRUTE),
    (MATCHED, TOLD, EVENTS, ROWS, CPU, JOB_CPU, MEMORY),
    (Limit("matched", 1.0, per=BRUTE),),
    {
        Scale.SMALL: {"rows": 20_000, "queries": 10_000, "changes": 1_000},
        Scale.FULL: {"rows": 100_000, "queries": 10_000, "changes": 1_000},
    },
    stage,
)
