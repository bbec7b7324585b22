"""How fast the initial copy is: against COPY to nothing on two connections, and beside Spark's JDBC source."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.goal import OURS, Failed, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world import versions
from tests.bench.world.contents import Contents, differences, in_delta, in_postgres
from tests.bench.world.copying import LOOK_SECONDS, copies_seen, copy_to_nothing
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source
from tests.bench.world.stock import Stock

TABLE = "orders"
NOTHING, JDBC = "COPY to nothing", "Spark JDBC"
RATE = Measure("rate", "rows a second, without the start of Spark", "1/s", more_is_better=True)
WHOLE = Measure("whole", "the whole command", "s")
STATISTICS = Measure("statistics", "part of the files that have statistics", "", more_is_better=True)
SIZE = Measure("size", "files on disk", "MiB")


@dataclass(frozen=True, slots=True)
class SnapshotStage:
    """A table that nobody writes to; every run of ours is a new pipeline on it."""

    ground: Ground
    source: Source
    stock: Stock
    leader: Contents
    sizes: Sizes
    runs: list[Pipeline] = field(default_factory=list)

    def run(self, side: str) -> Readings:
        with self.ground.meter.window() as window:
            if side == OURS:
                seconds, folder = self._bootstrapped()
            elif side == JDBC:
                seconds, folder = (
                    self.stock.copy({TABLE: self.sizes["rows"]}).json()["seconds"],
                    self.stock.folder(TABLE),
                )
            else:
                seconds, folder = self._to_nothing(), None
        return Readings({**self._values(window.usage, seconds), **(_files(folder) if folder else {})}, window.usage)

    def differences(self, side: str) -> list[str]:
        if side == NOTHING:
            return []
        folder = self.runs[-1].folder(TABLE) if side == OURS else self.stock.folder(TABLE)
        return differences(TABLE, self.leader, in_delta(folder))

    def _values(self, usage: Usage, seconds: float) -> dict[str, float]:
        values = taken(usage)
        return {**values, "rate": self.sizes["rows"] / seconds, "whole": values["seconds"]}

    def _to_nothing(self) -> float:
        began = time.monotonic()
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(copy_to_nothing, self.source, TABLE, half) for half in range(2)]:
                done.result()
        return time.monotonic() - began

    def _bootstrapped(self) -> tuple[float, Path]:
        """Seconds from the first COPY to the last commit that brought files, and where they are."""
        if self.runs:
            self.runs[-1].remove()
        pipeline = self.ground.pipeline(self.source, [TABLE], name=f"snapshot{len(self.runs)}")
        self.runs.append(pipeline)
        seen: list[float] = []

        def look(folder: Path, at: float, actions: versions.Actions) -> None:
            if versions.added(actions):
                seen.append(at)

        with copies_seen(self.source) as copies, versions.watched([pipeline.folder(TABLE)], look, LOOK_SECONDS):
            pipeline.bootstrap()
        if copies.began is None or not seen:
            raise Failed("no COPY of the bootstrap was seen")
        return seen[-1] - copies.began, pipeline.folder(TABLE)


def _files(folder: Path) -> dict[str, float]:
    """Size and statistics of the files that a table was made of."""
    found = [versions.actions(folder, version) for version in range(versions.newest(folder) + 1)]
    files = [file for actions in found for file in versions.added(actions)]
    told = [file for file in files if '"minValues"' in (file.get("stats") or "")]
    return {"size": sum(file["size"] for file in files) / 2**20, "statistics": len(told) / max(len(files), 1)}


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[SnapshotStage]:
    """A table, and what it holds."""
    with ground.parts() as parts:
        source = ground.source(parts, "snapshot", {TABLE: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE])
        stock = Stock(pipeline, source, pipeline.jars(), starting_offsets={})
        with source.connection() as connection:
            leader = in_postgres(connection, TABLE)
        yield SnapshotStage(ground, source, stock, leader, sizes)


COPY = Goal(
    "snapshot",
    "The initial copy, against COPY to nothing on two connections",
    "10 M rows: ≥ 0.4 of COPY; statistics in the files",
    (NOTHING, OURS, JDBC),
    (RATE, WHOLE, STATISTICS, SIZE, CPU, JOB_CPU, MEMORY),
    (Limit("rate", 0.4, per=NOTHING), Limit("statistics", 1.0)),
    {Scale.SMALL: {"rows": 200_000}, Scale.FULL: {"rows": 10_000_000}},
    stage,
)
