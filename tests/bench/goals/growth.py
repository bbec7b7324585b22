"""What grows while a lake is followed: memory, files and bytes, and the requests of an object store."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lag import noted
from tests.bench.goals.lane import LakeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, LATENCIES, MEMORY, UNSEEN, latencies, of_latencies, taken
from tests.bench.ground import Ground
from tests.bench.meter.trees import DRIVER
from tests.bench.world.contents import delta_rows
from tests.bench.world.ledger import ledger
from tests.bench.world.pipeline import LAKE, Pipeline, Settings
from tests.bench.world.requests import Requests, counted_store
from tests.bench.world.source import Source
from tests.bench.world.visible import newest_cut

AT_ONCE = "at-once"
"""The same with the cadence of before: every change is committed as soon as may be."""
SETTINGS: Mapping[str, Settings] = {OURS: {}, AT_ONCE: {"followers": {LAKE: {"freshness_seconds": 0}}}}

PYTHON = Measure("python", "the driver's Python, peak", "MiB")
GROWN = Measure("grown", "of it, grown in the second half", "MiB")
FILES = Measure("files", "files a table's commit", "")
WRITTEN = Measure("written", "bytes written, of the changed rows' own", "")
COMMITS = Measure("commits", "commits of tables an hour", "1/h")
DISK = Measure("disk", "written to the lake an hour", "MiB/h")
REQUESTS = Measure("requests", "requests of the object store an hour", "1/h")


@dataclass(frozen=True, slots=True)
class GrowthStage:
    """A pipeline for each side on the same source; one of them runs at a time."""

    source: Source
    tables: Sequence[str]
    pipelines: Mapping[str, Pipeline]
    sizes: Sizes
    requests: Mapping[str, Requests]

    def run(self, side: str) -> Readings:
        pipeline, half = self.pipelines[side], self.sizes["seconds"] / 2
        with opened(LakeLane(pipeline), self.source, pipeline, self.tables) as lane:
            self._pace(self.sizes["warm"])
            lane.touch()
            self.source.forget_notes()
            before = Stand.of(pipeline, self.tables, self.requests.get(side))
            with ledger(self.source) as book:
                with pipeline.meter.window() as first:
                    self._pace(half)
                with pipeline.meter.window() as second:
                    self._pace(half)
                    lane.touch()
                commits = noted(self.source, book.commits())
            after = Stand.of(pipeline, self.tables, self.requests.get(side))
            samples = latencies(commits, lane.sight.seen_at(commits))
        peaks = [window.usage.peak.get(DRIVER, 0) / 2**20 for window in (first, second)]
        own = len(commits) * _row_bytes(pipeline, self.tables[0])
        values = {**of_latencies(samples, len(commits)), **taken(second.usage), **before.until(after, own)}
        values |= {"python": max(peaks), "grown": peaks[1] - peaks[0]}
        return Readings(values, second.usage, {"p50": samples})

    def differences(self, side: str) -> list[str]:
        return compared(self.source, LakeLane(self.pipelines[side]), self.tables)

    def _pace(self, seconds: float) -> None:
        rate = self.sizes["rate"] / len(self.tables)
        pace = partial(self.source.pace, keys=self.sizes["rows"], rate=rate, seconds=seconds, writers=1)
        with ThreadPoolExecutor(len(self.tables)) as threads:
            for done in [threads.submit(pace, table) for table in self.tables]:
                done.result()


@dataclass(frozen=True, slots=True)
class Stand:
    """What was written up to a moment; nothing of it is deleted before `retention_hours` are over."""

    at: float
    files: int
    bytes: int
    lake_bytes: int
    commits: int
    requests: int | None

    @classmethod
    def of(cls, pipeline: Pipeline, tables: Sequence[str], requests: Requests | None) -> "Stand":
        lake = _sizes(pipeline.lake)
        own = [size for table in tables for size in _sizes(pipeline.folder(table))]
        versions = newest_cut(pipeline.cuts)
        commits = sum(versions[f"public.{table}"] for table in tables)
        return cls(time.monotonic(), len(own), sum(own), sum(lake), commits, requests.count if requests else None)

    def until(self, later: "Stand", own_bytes: float) -> dict[str, float]:
        """What came between two moments, as measures."""
        hours, commits = (later.at - self.at) / 3600, later.commits - self.commits
        written = later.lake_bytes - self.lake_bytes
        found = {
            "files": (later.files - self.files) / max(commits, 1),
            "written": written / own_bytes,
            "commits": commits / hours,
            "disk": written / 2**20 / hours,
        }
        if self.requests is not None and later.requests is not None:
            found["requests"] = (later.requests - self.requests) / hours
        return found


def _sizes(folder: Path) -> list[int]:
    return [file.stat().st_size for file in folder.rglob("*") if file.is_file()]


def _row_bytes(pipeline: Pipeline, table: str) -> float:
    """What a row's values take in memory, on average."""
    rows = delta_rows(pipeline.folder(table), newest_cut(pipeline.cuts)[f"public.{table}"]).read_all()
    return float(rows.nbytes / rows.num_rows)


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[GrowthStage]:
    """One or many tables in folders, followed at the cadence by default, and at once."""
    with ground.parts() as parts:
        tables = [f"orders{n}" for n in range(sizes["tables"])]
        source = ground.source(parts, "growth", dict.fromkeys(tables, sizes["rows"] // len(tables)))
        pipelines = {
            side: ground.pipeline(source, tables, name=f"growth_{number}", settings=settings)
            for number, (side, settings) in enumerate(SETTINGS.items())
        }
        for pipeline in pipelines.values():
            pipeline.bootstrap()
        yield GrowthStage(source, tables, pipelines, {**sizes, "rows": sizes["rows"] // len(tables)}, {})


@contextmanager
def on_object_store(ground: Ground, sizes: Sizes) -> Iterator[GrowthStage]:
    """One table on an S3Proxy whose requests are counted on their way."""
    with ground.parts() as parts, counted_store(ground.folder / "s3") as store:
        source = ground.source(parts, "growth", {"orders": sizes["rows"]})
        pipelines = {}
        for number, (side, settings) in enumerate(SETTINGS.items()):
            name = f"growth_{number}"
            pipeline = ground.pipeline(source, ["orders"], name=name, settings=store.settings(name, settings))
            store.show(pipeline)
            pipeline.bootstrap()
            pipelines[side] = pipeline
        yield GrowthStage(source, ["orders"], pipelines, sizes, dict.fromkeys(pipelines, store.requests))


MEASURES = (PYTHON, GROWN, FILES, WRITTEN, COMMITS, DISK, *LATENCIES, UNSEEN, CPU, JOB_CPU, MEMORY)


def _memory(name: str, tables: int) -> Goal:
    many = f"{tables} tables" if tables > 1 else "one table"
    return Goal(
        name,
        f"Memory, files and bytes of following 500 single-row transactions a second in {many}",
        "two hours: ≤ 500 MiB of Python, whatever is kept",
        (OURS, AT_ONCE),
        MEASURES,
        (Limit("python", 500),),
        {
            Scale.SMALL: {"rows": 100_000, "tables": tables, "rate": 200, "warm": 15, "seconds": 60},
            Scale.FULL: {"rows": 1_000_000, "tables": tables, "rate": 500, "warm": 120, "seconds": 7200},
        },
        stage,
    )


MEMORY_OF_ONE, MEMORY_OF_TWENTY = _memory("growth-memory", 1), _memory("growth-memory-twenty", 20)
BYTES = Goal(
    "growth-bytes",
    "Files and bytes of 500 single-row transactions a second in a million rows",
    "≤ 5 times the changed rows' own bytes, p50 ≤ 1 s, p99 ≤ 2 s",
    (OURS, AT_ONCE),
    MEASURES,
    (Limit("written", 5), Limit("p50", 1.0), Limit("p99", 2.0)),
    {
        Scale.SMALL: {"rows": 100_000, "tables": 1, "rate": 200, "warm": 15, "seconds": 60},
        Scale.FULL: {"rows": 1_000_000, "tables": 1, "rate": 500, "warm": 120, "seconds": 1200},
    },
    stage,
)
ON_OBJECT_STORE = Goal(
    "growth-requests",
    "Requests of an object store at 1,000 single-row transactions a second in one table",
    "≤ 6,000 requests an hour, p99 ≤ 8 s",
    (OURS, AT_ONCE),
    (REQUESTS, *MEASURES),
    (Limit("requests", 6000), Limit("p99", 8.0)),
    {
        Scale.SMALL: {"rows": 100_000, "rate": 200, "warm": 15, "seconds": 90},
        Scale.FULL: {"rows": 1_000_000, "rate": 1000, "warm": 120, "seconds": 1200},
    },
    on_object_store,
)
