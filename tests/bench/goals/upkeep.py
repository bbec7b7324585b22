"""What a thousand batches leave behind: files, bytes, and what a full scan costs, against a compacted copy."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from deltalake import DeltaTable

from tests.bench.arithmetic import Sample, drift
from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, opened
from tests.bench.goals.measures import CPU, DRIFT, taken
from tests.bench.ground import Ground
from tests.bench.meter.meter import Meter
from tests.bench.world.contents import Contents, delta_rows, differences, in_delta, in_postgres
from tests.bench.world.jobs import run, stock_command
from tests.bench.world.pipeline import LAKE, Pipeline, Settings
from tests.bench.world.source import Source
from tests.bench.world.visible import newest_cut

TABLE = "orders"
COMPACTED = "compacted"
SHORTEST_RETENTION: Settings = {"followers": {LAKE: {"retention_hours": 0}}}
"""The settings of `cdc.yaml` that keep as little as possible."""

SCAN = Measure("scan", "a full scan by Spark (median)", "s")
BY_DELTA_RS = Measure("delta_rs", "a full scan by delta-rs (median)", "s")
FILES = Measure("files", "files of the newest version", "")
ON_DISK = Measure("on_disk", "files in the folder, log and vectors included", "")
DISK = Measure("disk", "on disk", "MiB")
BATCH = Measure("batch", "a batch, from its commit to its cut (median)", "s")


@dataclass(frozen=True, slots=True)
class UpkeepStage:
    """The folders to scan, each at its version; the batches are in when this is made."""

    meter: Meter
    jars: Sequence[str]
    work: Path
    folders: Mapping[str, tuple[Path, int]]
    leader: Contents
    batches: list[Sample]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        folder, version = self.folders[side]
        with self.meter.window() as window:
            by_delta_rs = [_scanned(folder, version) for _ in range(self.sizes["scans"])]
            asked = {"jars": self.jars, "folder": str(folder), "version": version, "scans": self.sizes["scans"]}
            seconds = run(self.meter, stock_command("scan_job", asked, self.work), self.work).json()["seconds"]
        files = [file for file in folder.rglob("*") if file.is_file()]
        values = {
            "scan": median(seconds),
            "delta_rs": median(by_delta_rs),
            "files": float(len(DeltaTable(str(folder), version=version).file_uris())),
            "on_disk": float(len(files)),
            "disk": sum(file.stat().st_size for file in files) / 2**20,
            **taken(window.usage),
        }
        if side != OURS:
            return Readings(values, window.usage)
        values |= {"batch": median(each for _, each in self.batches), "drift": drift(self.batches)}
        return Readings(values, window.usage, {"batch": self.batches})

    def differences(self, side: str) -> list[str]:
        return differences(TABLE, self.leader, in_delta(*self.folders[side]))


def _scanned(folder: Path, version: int) -> float:
    """Seconds that it takes to read every column of every row."""
    began = time.monotonic()
    for _ in delta_rows(folder, version):
        pass
    return time.monotonic() - began


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[UpkeepStage]:
    """Apply the batches one by one, each in a cut of its own, and write a compacted copy of what they left."""
    with ground.parts() as parts:
        source = ground.source(parts, "upkeep", {TABLE: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE], settings=SHORTEST_RETENTION)
        pipeline.bootstrap()
        batches = _applied(ground, source, pipeline, sizes)
        ours = pipeline.folder(TABLE), newest_cut(pipeline.cuts)[f"public.{TABLE}"]
        compacted, work = parts.folder / "lakes" / COMPACTED, parts.folder / "work" / "scan"
        jars = pipeline.jars()
        asked = {"jars": jars, "folder": str(ours[0]), "version": ours[1], "into": str(compacted)}
        run(ground.meter, stock_command("scan_job", asked, work), work)
        with source.connection() as connection:
            leader = in_postgres(connection, TABLE)
        yield UpkeepStage(ground.meter, jars, work, {OURS: ours, COMPACTED: (compacted, 0)}, leader, batches, sizes)


def _applied(ground: Ground, source: Source, pipeline: Pipeline, sizes: Sizes) -> list[Sample]:
    """(place, seconds from the log to the cut) of every batch."""
    seconds: list[Sample] = []
    with opened(LakeLane(pipeline), source, pipeline, [TABLE]) as lane:
        for number in range(sizes["batches"]):
            end, seen = lane.wait(source.batch(TABLE, sizes["rows"], sizes["changes"]).xid)
            seconds.append((float(number), seen - end.appended))
            if (number + 1) % 100 == 0:
                ground.say(f"{number + 1:,} batches of {sizes['batches']:,}")
    return seconds


AFTER_BATCHES = Goal(
    "upkeep",
    "After many batches: a full scan, files and disk, against a compacted copy",
    "after 1,000 batches: scan ≤ 1.25 of compacted, disk ≤ 2.5 of live data",
    (OURS, COMPACTED),
    (SCAN, BY_DELTA_RS, DISK, FILES, ON_DISK, BATCH, DRIFT, CPU),
    (Limit("scan", 1.25, per=COMPACTED), Limit("disk", 2.5, per=COMPACTED)),
    {
        Scale.SMALL: {"rows": 50_000, "batches": 12, "changes": 200, "scans": 5},
        Scale.FULL: {"rows": 1_000_000, "batches": 1_000, "changes": 1_000, "scans": 5},
    },
    stage,
)
