"""`cdc submit` by coordinates; on a cluster it runs in `test_object_store.py`."""

import random

import pytest
from pyspark.sql import SparkSession

from tests.support.cdc_inprocess import bootstrap, verify
from tests.support.cdc_subprocess import cdc
from tests.support.pipelines import MakePipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1200)


def test_printed_command_names_master_and_packages(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",), lake_only=True)
    shown = cdc(pipeline, "submit", "--master", "spark://10.0.0.1:7077", "--packages", "--until-caught-up", "--print")
    assert "--master spark://10.0.0.1:7077" in shown.stdout, shown.stderr
    assert "--packages io.delta:delta-spark" in shown.stdout


@pytest.mark.further
def test_follow_job_runs_with_resolved_packages(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    """As the job of `test_object_store.py`, but that Spark finds its jars itself instead of getting ours."""
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS), lake_only=True)
    bootstrap(pipeline, spark)
    Workload(pipeline.connection, random.Random(5)).write(100)
    pipeline.configure("conf: {}", f"conf: {{spark.jars.ivy: {pipeline.config.parent / 'ivy'}}}")
    ended = cdc(pipeline, "submit", "--master", "local[2]", "--packages", "--until-caught-up")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert verify(pipeline, spark).is_equal
