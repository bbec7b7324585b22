"""What is seen of the hour every few seconds: commits, lags, memory, and what the lake has on its disk."""

import json
import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

import deltalake
import httpx
import psutil
import psycopg

from tests.bench.hour.faults import Follower
from tests.bench.hour.shop import NAME, count_commits
from tests.bench.world.parts import Parts
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.visible import CutSight

SECONDS: Final = 3.0
LAKE_EVERY: Final = 5
"""Samples between two looks at the lake's disk, which cost more."""
_LAG: Final = re.compile(r'^cdc_(follower|view)_lag_seconds\{[^}]*\b\1="([^"]+)"[^}]*\} ([0-9.e+-]+)', re.MULTILINE)
_LSN: Final = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"

Sample = dict[str, Any]


@dataclass(slots=True)
class Sampler:
    """Takes samples, and writes each at once: a run that is ended keeps them. What does not answer is left out."""

    parts: Parts
    pipeline: Pipeline
    follower: Follower
    cuts: CutSight
    file: TextIO
    began: float
    samples: list[Sample] = field(default_factory=list)
    _written: list[tuple[float, int]] = field(default_factory=list)
    """When, and the source's end then."""

    def take(self) -> None:
        sample: Sample = {"at": round(time.time() - self.began, 2), "life": self.follower.lives}
        looks: list[Callable[[], Mapping[str, Any]]] = [self._source, self._lake_lag, self._lags, self._memory]
        if len(self.samples) % LAKE_EVERY == 0:
            looks.append(self._disk)
        for look in looks:
            try:
                sample |= look()
            except (psycopg.Error, httpx.HTTPError, psutil.Error, OSError, deltalake.exceptions.DeltaError):
                # it is killed now and then, and files go while they are counted
                continue
        self.samples.append(sample)
        self.file.write(f"{json.dumps(sample)}\n")
        self.file.flush()

    def _source(self) -> Sample:
        with psycopg.connect(f"{self.parts.conninfo(NAME)} connect_timeout=2", autocommit=True) as connection:
            row = connection.execute(_LSN.encode()).fetchone()
            assert row is not None
            self._written.append((time.time(), row[0]))
            return {"commits": count_commits(connection)}

    def _lake_lag(self) -> Sample:
        """Since when the source has written what no cut shows."""
        if not self.cuts.cuts:
            return {}
        place = bisect_left(self._written, self.cuts.cuts[-1].lsn + 1, key=lambda written: written[1])
        lacked = self._written[place][0] if place < len(self._written) else time.time()
        return {"lake_lag": round(max(time.time() - lacked, 0.0), 2)}

    def _lags(self) -> Sample:
        """As the product tells them."""
        text = httpx.get(f"http://127.0.0.1:{self.follower.metrics}/metrics", timeout=2).text
        found = {name: round(float(seconds), 2) for _, name, seconds in _LAG.findall(text)}
        return {"lags": found} if found else {}

    def _memory(self) -> Sample:
        """The driver's Python, all of its Pythons, and its Java, resident; and what the first holds: of the pages of
        files that it has mapped, which grow with the tables, the system takes back what it needs."""
        job = self.follower.job
        if job is None:
            return {}
        process = psutil.Process(job.process.pid)
        sizes = [(each.name(), each.memory_info().rss / 2**20) for each in process.children(recursive=True)]
        # of a process that is being killed, all of these are 0
        used = process.memory_info()
        own, java = used.rss / 2**20, sum(size for name, size in sizes if "java" in name)
        others, held = sum(size for name, size in sizes if "java" not in name), (used.rss - used.shared) / 2**20
        sizes_by_name = {"python": own, "pythons": own + others, "java": java, "held": held}
        return {name: round(size, 1) for name, size in sizes_by_name.items()}

    def _disk(self) -> Sample:
        files = [*_sizes(self.pipeline.lake)]
        state = [*_sizes(self.pipeline.config.parent / ".cdc" / "index")]
        live = rows = 0
        for log in self.pipeline.lake.glob("*/*/_delta_log"):
            actions = deltalake.DeltaTable(str(log.parent)).get_add_actions(flatten=True)
            live += actions.num_rows
            rows += sum(count or 0 for count in actions.column("num_records").to_pylist())
        return {
            "files": len(files),
            "mib": round(sum(files) / 2**20, 1),
            "live_files": live,
            "rows": rows,
            "index_mib": round(sum(state) / 2**20, 1),
        }


def _sizes(folder: Path) -> list[int]:
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found.append((Path(place) / name).stat().st_size)
            except FileNotFoundError:
                continue
    return found
