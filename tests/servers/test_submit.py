"""`cdc submit` on a standalone cluster of two workers, started from the same pyspark."""

import random

import pytest
from pyspark.sql import SparkSession

from tests.commands import cdc
from tests.pipelines import MakePipeline
from tests.servers.workload import ITEMS, ORDERS, SCHEMA, Workload
from tests.verbs import booted, verified

pytestmark = pytest.mark.timeout(1200)


def test_the_follow_job_runs_on_a_cluster_and_by_coordinates(
    make_pipeline: MakePipeline, cluster: str, spark: SparkSession
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    booted(pipeline, spark)
    Workload(pipeline.connection, random.Random(5)).write(100)
    shown = cdc(pipeline, "submit", "--master", cluster, "--until-caught-up", "--print")
    assert f"--master {cluster}" in shown.stdout
    ended = cdc(pipeline, "submit", "--master", cluster, "--until-caught-up")
    assert ended.returncode == 0, ended.stderr[-3000:]
    Workload(pipeline.connection, random.Random(6), fresh=2_000_000).write(10)
    pipeline.configure("conf: {}", f"conf: {{spark.jars.ivy: {pipeline.config.parent / 'ivy'}}}")
    ended = cdc(pipeline, "submit", "--master", "local[2]", "--packages", "--until-caught-up")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert verified(pipeline, spark).equal
