"""Measures the streams of this process, and tells of it in reports that whoever shows the state reads."""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
from msgspec.structs import replace

from cdc.core.counters import COUNTERS
from cdc.run.background import run_in_background
from cdc.run.follow.streams import BatchProgress
from cdc.run.status.stream_report import FRESHNESS_BOUNDS, Reports, StreamReport

KEPT_COMMITS: Final = 4096
FRESH_SECONDS: Final = 300.0
"""Percentiles are of the commits that became visible in so long, and of KEPT_COMMITS at most."""
MOST_REPORTED: Final = 256
KEPT_BATCHES: Final = 64
REPORT_SECONDS: Final = 2.0


class StreamMeter:
    """Measures one stream; `note_batch` is called in its threads, `report` in any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began_at = clock()
        self._batches = self._retries = 0
        self._fresh: deque[tuple[float, float]] = deque(maxlen=KEPT_COMMITS)
        self._fresh_sum = 0.0
        self._buckets = np.zeros(len(FRESHNESS_BOUNDS), np.int64)
        self._commits = 0
        # seconds and changes alone: a batch of a backlog has thousands of commits
        self._newest: deque[tuple[float, int]] = deque(maxlen=KEPT_BATCHES)
        self._stages: dict[str, float] = {}
        self._ops = Counter[str]()

    def note_batch(self, progress: BatchProgress) -> None:
        """Take in a batch that readers see from now on."""
        now = self._clock()
        # the clocks of two machines: a commit is never seen before it
        fresh = np.maximum(now - np.asarray(progress.committed_ms, np.float64) / 1000, 0.0)
        within = np.searchsorted(np.sort(fresh), FRESHNESS_BOUNDS, "right")
        with self._lock:
            self._batches += 1
            self._commits += len(fresh)
            self._fresh.extend((now, seconds) for seconds in fresh[-KEPT_COMMITS:].tolist())
            self._fresh_sum += float(fresh.sum())
            self._buckets += within
            self._newest.append((progress.seconds, progress.changes))
            self._ops.update(progress.ops)
            for stage, seconds in progress.stages.items():
                self._stages[stage] = self._stages.get(stage, 0.0) + seconds

    def note_retry(self) -> None:
        with self._lock:
            self._retries += 1

    def report(self) -> StreamReport:
        """What is known of the stream now."""
        now = self._clock()
        with self._lock:
            fresh = [round(seconds, 3) for seen, seconds in self._fresh if seen > now - FRESH_SECONDS]
            return StreamReport(
                at=now,
                began_at=self._began_at,
                pid=os.getpid(),
                batches=self._batches,
                retries=self._retries,
                commits=self._commits,
                # a median does not need thousands of them
                freshness=fresh[:: max(len(fresh) // MOST_REPORTED, 1)],
                freshness_sum=self._fresh_sum,
                buckets=dict(zip(map(str, FRESHNESS_BOUNDS), self._buckets.tolist(), strict=True)),
                batch_seconds=[round(seconds, 4) for seconds, _ in self._newest],
                batch_changes=[changes for _, changes in self._newest],
                stages=dict(self._stages),
                ops=dict(self._ops),
            )


@contextmanager
def report_streams(meters: Mapping[str, StreamMeter], reports: Reports, settings: str = "") -> Iterator[None]:
    """Write a report of each stream every REPORT_SECONDS, as long as the context lasts; none is left at its end.

    `settings`: the digest of those that the process has begun with. What counts for the whole process is told by the
    first stream.
    """
    first = next(iter(meters), None)

    def work(ended: threading.Event) -> None:
        while not ended.wait(REPORT_SECONDS):
            for name, meter in meters.items():
                counts = COUNTERS.read() if name == first else None
                reports.write(name, replace(meter.report(), settings=settings, counts=counts))

    with run_in_background(work, "reports"):
        yield
    for name in meters:
        reports.remove(name)
