"""How fast the index is filled by the bootstrap, against raw bulk requests of ready bytes from two threads."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.bench.goal import OURS, Failed, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world import bulk, search
from tests.bench.world.contents import Contents, differences, in_documents, in_postgres
from tests.bench.world.jobs import cdc_command, started, telling_line
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import Source
from tests.support.waiting import until

TABLE = "orders"
RAW = "raw _bulk"
RATE = Measure("rate", "documents a second, from the new index to the last that is found", "1/s", more_is_better=True)
AFTER_FIRST = Measure("after_first", "the same from the first document that was sent", "1/s", more_is_better=True)
LIMIT_SECONDS = 3600.0
LOOK_SECONDS = 0.2
"""Nobody asks while the raw side sends."""


@dataclass(frozen=True, slots=True)
class FillingStage:
    """A table that nobody writes to; every run of ours is a new pipeline, whose documents the raw side sends again."""

    ground: Ground
    source: Source
    leader: Contents
    sizes: Sizes
    runs: list[Pipeline] = field(default_factory=list)

    def run(self, side: str) -> Readings:
        return self._ours() if side == OURS else self._raw()

    def differences(self, side: str) -> list[str]:
        found = (hit["_source"] for hit in search.documents(self.source.parts.search, self._index(side)))
        return differences("the index", self.leader, in_documents(found))

    def _ours(self) -> Readings:
        """Bootstrap a new pipeline, and measure from the moment at which its index is there."""
        if self.runs:
            httpx.delete(f"{self.source.parts.search}/{self._index(RAW)}", timeout=60)
            self.runs.pop().remove()
        number = int(time.time())
        pipeline = self.ground.pipeline(self.source, [TABLE], (LAKE, "search"), f"filling{number}")
        self.runs.append(pipeline)
        index, rows = self._index(OURS), self.sizes["rows"]
        command = cdc_command(pipeline.config, "bootstrap")
        with (
            # one client: to make one takes longer than to ask
            httpx.Client(base_url=self.source.parts.search, timeout=60) as client,
            started(self.ground.meter, command, pipeline.work, "bootstrap") as job,
        ):
            until(lambda: client.get(f"/{index}").is_success or job.check(), "the index is there", LIMIT_SECONDS)
            with self.ground.meter.window() as window:
                until(lambda: search.indexed(client, index) > 0 or job.check(), "a document is sent", LIMIT_SECONDS)
                first = time.monotonic()
                all_found = lambda: search.count(client, index) >= rows or job.check()  # noqa: E731
                until(all_found, "all are found", LIMIT_SECONDS, LOOK_SECONDS)
                last = time.monotonic()
            job.wait(LIMIT_SECONDS)
            if job.code:
                raise Failed(f"the bootstrap ended with {job.code}: {telling_line(job.said)}")
        values = {"rate": rows / window.usage.seconds, "after_first": rows / (last - first)}
        return Readings(values | taken(window.usage), window.usage)

    def _raw(self) -> Readings:
        url, ours, raw = self.source.parts.search, self._index(OURS), self._index(RAW)
        bodies = list(bulk.requests(search.documents(url, ours)))
        with self.ground.meter.window() as window:
            bulk.make_like(url, ours, raw)
            bulk.send(url, raw, bodies)
        return Readings({"rate": self.sizes["rows"] / window.usage.seconds, **taken(window.usage)}, window.usage)

    def _index(self, side: str) -> str:
        if not self.runs:
            raise Failed("ours has filled no index whose documents could be sent again")
        return self.runs[-1].index(TABLE) if side == OURS else f"{self.runs[-1].name}-raw"


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[FillingStage]:
    """A table, what it holds, and a node that is warm."""
    with ground.parts() as parts:
        source = ground.source(parts, "filling", {TABLE: sizes["rows"]})
        with source.connection() as connection:
            leader = in_postgres(connection, TABLE)
        found = FillingStage(ground, source, leader, sizes)
        # unmeasured: a node that has just started takes half as many documents, and ours goes first in a pair
        for side in (OURS, RAW):
            found.run(side)
        yield found


FILLING = Goal(
    "filling",
    "Filling the index, against raw bulk requests of ready bytes",
    "≥ 0.8 of raw `_bulk`",
    (OURS, RAW),
    (RATE, AFTER_FIRST, CPU, JOB_CPU, MEMORY),
    (Limit("rate", 0.8, per=RAW),),
    {Scale.SMALL: {"rows": 50_000}, Scale.FULL: {"rows": 1_000_000}},
    stage,
)
