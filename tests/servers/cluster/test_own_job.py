"""A program's own job over the changes of a table: begun on one machine, it goes on by its checkpoint on a cluster."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars
import pytest
from pyspark.sql import SparkSession

from cdc.run.toolkit_archive import build_archive
from tests.support.cdc_inprocess import bootstrap, catch_up
from tests.support.clicks_job import count_clicks
from tests.support.parts.cluster_fixture import Cluster
from tests.support.parts.pipelines import MakePipeline, Pipeline

PAGES = ("home", "search", "cart")
Clicks = Counter[tuple[datetime, str]]
"""Of a page, in the minute that begins then."""


def click(pipeline: Pipeline, numbers: range, counts: Clicks) -> None:
    """Clicks of ten seconds each, all in order of time; some are corrected or taken back later."""
    clicks = [
        (number, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=10 * number), PAGES[number % 3], "x" * 5000)
        for number in numbers
    ]
    with pipeline.connection.transaction(), pipeline.connection.cursor() as cursor:
        cursor.executemany("INSERT INTO clicks VALUES (%s, %s, %s, %s)", clicks)
    counts.update((at.replace(second=0, tzinfo=None), page) for _, at, page, _ in clicks)
    pipeline.run("UPDATE clicks SET page = 'none' WHERE id % 7 = 1", "DELETE FROM clicks WHERE id % 11 = 5")


def count_on(cluster: Cluster, pipeline: Pipeline, folder: Path) -> None:
    """Run the job by a process of its own on a cluster, whose workers have the toolkit from nowhere but from it."""
    arguments = (cluster.master, str(pipeline.config), str(folder), str(build_archive(folder)))
    command = [sys.executable, "-m", "tests.support.clicks_job", *arguments]
    environ = {**os.environ, **pipeline.environ, "PYSPARK_PYTHON": str(cluster.python)}
    ended = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def read_counts(folder: Path) -> Clicks:
    """The clicks a minute that the job has given so far."""
    rows = polars.read_parquet(folder / "windows" / "*.parquet").to_dicts()
    assert len({(row["start"], row["page"]) for row in rows}) == len(rows), "a window is given twice"
    return Counter({(row["start"].replace(tzinfo=None), row["page"]): row["count"] for row in rows})


def counts_until(closed: datetime, expected: Mapping[tuple[datetime, str], int]) -> Clicks:
    return Counter({key: count for key, count in expected.items() if key[0] <= closed})


def test_a_job_of_ones_own_over_changes_goes_on_from_its_checkpoint(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clicks a minute: first in this process, then on the two workers of a cluster."""
    clicks = "CREATE TABLE clicks (id int PRIMARY KEY, at timestamptz, page text, long text)"
    pipeline = make_pipeline(clicks, tables=("public.clicks",), lake_only=True)
    bootstrap(pipeline, spark)
    pipeline.set_environ(monkeypatch)
    expected, job = Clicks(), tmp_path / "job"
    click(pipeline, range(300), expected)
    # the log has everything then
    catch_up(pipeline, spark)
    count_clicks(spark, pipeline.config, job)
    first = read_counts(job)
    assert first == counts_until(max(start for start, _ in first), expected)
    click(pipeline, range(300, 600), expected)
    catch_up(pipeline, spark)
    count_on(cluster, pipeline, job)
    second = read_counts(job)
    assert len(first) < len(second)
    assert second == counts_until(max(start for start, _ in second), expected)
