"""How far long work is, told while it runs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Row, SparkSession

from cdc.core.errors import CdcError
from cdc.run.progress import Advance
from snapshots.copy import Job, Watch

LOOK_SECONDS, COUNT_SECONDS = 0.5, 2.0


def track_job(spark: SparkSession, advance: Advance, rows: int) -> Watch:
    """Runs a job of many tasks and advances a bar of about `rows` rows by the share of tasks that are done."""

    def watch(job: Job) -> list[Row]:
        group = f"cdc-{uuid4()}"
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(_in_group(spark, group, job))
            _look(spark, group, running, advance, rows)
            return running.result()

    return watch


def _in_group(spark: SparkSession, group: str, job: Job) -> Job:
    def run() -> list[Row]:
        # a job group belongs to a thread: it is set in the one that runs the job
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        return job()

    return run


def _look(
    spark: SparkSession, group: str, running: "Future[list[Row]]", advance: Callable[[int], None], rows: int
) -> None:
    told = 0
    while wait([running], timeout=LOOK_SECONDS).not_done:
        done = round(rows * _share_done(spark, group))
        if done > told:
            advance(done - told)
            told = done
    # `rows` is the planner's estimate: the bar ends with what was really copied, forwards or back
    if not running.exception() and (rest := sum(row["rows"] for row in running.result()) - told):
        advance(rest)


@contextmanager
def track_count(count: Callable[[], int], advance: Advance, rows: int) -> Iterator[None]:
    """Advances a bar of `rows` rows by what `count` grows meanwhile; a count that fails is left out."""
    telling, ended = _CountedBar(advance, rows, count()), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(_tell, count, telling, ended)
        try:
            yield
        finally:
            ended.set()
    telling.rest()


@dataclass(slots=True)
class _CountedBar:
    """Advances a bar from a count that began at `base`, never back and never beyond its end."""

    advance: Advance
    rows: int
    base: int
    told: int = 0

    def tell(self, count: int) -> None:
        # an index that is filled is made anew first, and what it had counted is gone
        self.base = min(self.base, count)
        self._reach(min(count - self.base, self.rows))

    def rest(self) -> None:
        self._reach(self.rows)

    def _reach(self, done: int) -> None:
        if done > self.told:
            self.advance(done - self.told)
            self.told = done


def _tell(count: Callable[[], int], telling: _CountedBar, ended: threading.Event) -> None:
    while not ended.wait(COUNT_SECONDS):
        with suppress(CdcError):
            telling.tell(count())


def _share_done(spark: SparkSession, group: str) -> float:
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
