"""Advances progress bars while a Spark job or another long task runs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Row, SparkSession

from cdc.core.errors import CdcError
from cdc.progress import Advance
from cdc.snapshots.copy import Job, Watch

LOOK_SECONDS, COUNT_SECONDS = 0.5, 2.0


def track_job(spark: SparkSession, advance: Advance, rows: int) -> Watch:
    """Returns a runner of jobs that advances a bar of about `rows` rows by the share of finished tasks."""

    def watch(job: Job) -> list[Row]:
        group = f"cdc-{uuid4()}"
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(_in_group(spark, group, job))
            _follow_job(spark, group, running, advance, rows)
            return running.result()

    return watch


def _in_group(spark: SparkSession, group: str, job: Job) -> Job:
    def run() -> list[Row]:
        # a job group belongs to a thread, so it is set in the one that runs the job
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        return job()

    return run


def _follow_job(
    spark: SparkSession, group: str, running: "Future[list[Row]]", advance: Callable[[int], None], rows: int
) -> None:
    shown = 0
    while wait([running], timeout=LOOK_SECONDS).not_done:
        done = round(rows * _share_done(spark, group))
        if done > shown:
            advance(done - shown)
            shown = done
    # `rows` is the planner's estimate: at the end the bar jumps to the rows copied, forwards or back
    if not running.exception() and (rest := sum(row["rows"] for row in running.result()) - shown):
        advance(rest)


@contextmanager
def track_count(count: Callable[[], int], advance: Advance, rows: int) -> Iterator[None]:
    """Advance a bar of `rows` rows by the growth of `count`, as long as the context lasts. Skips failed counts."""
    bar, ended = _CountedBar(advance, rows, count()), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(_count_on, count, bar, ended)
        try:
            yield
        finally:
            ended.set()
    bar.finish()


@dataclass(slots=True)
class _CountedBar:
    """A bar of a count that began at `base`; it moves neither back nor beyond its end."""

    advance: Advance
    rows: int
    base: int
    shown: int = 0

    def update(self, count: int) -> None:
        # filling an index starts with making it anew, which sets its count back to 0
        self.base = min(self.base, count)
        self._advance_to(min(count - self.base, self.rows))

    def finish(self) -> None:
        self._advance_to(self.rows)

    def _advance_to(self, done: int) -> None:
        if done > self.shown:
            self.advance(done - self.shown)
            self.shown = done


def _count_on(count: Callable[[], int], bar: _CountedBar, ended: threading.Event) -> None:
    while not ended.wait(COUNT_SECONDS):
        with suppress(CdcError):
            bar.update(count())


def _share_done(spark: SparkSession, group: str) -> float:
    # the tracker knows finished tasks of the group only; rows come with a task's result, at its end
    tracker = spark.sparkContext.statusTracker()
    stages = [
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job))
        for number in info.stageIds
        if (stage := tracker.getStageInfo(number))
    ]
    total = sum(stage.numTasks for stage in stages)
    return sum(stage.numCompletedTasks for stage in stages) / total if total else 0.0
