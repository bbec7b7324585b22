"""How far a Spark job is, told while it runs."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from uuid import uuid4

from pyspark.sql import Row, SparkSession

from cdc.run.output import Advance
from snapshots.copy import Job, Watch

LOOK_SECONDS = 0.5


def watched(spark: SparkSession, advance: Advance, rows: int) -> Watch:
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
    if not running.exception() and (rest := sum(row["rows"] for row in running.result()) - told):
        advance(rest)


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
