"""An opened pipeline: each part is opened once, and closed with it."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.run.pipeline import Pipeline
from tests.unit.config.test_settings import made

SPARK = cast("SparkSession", object())


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.*"]}
    followers = {"lake": {"kind": "delta", "path": str(tmp_path)}, "latest": {"kind": "latest"}}
    return made(pipeline={"name": "p", "state": str(tmp_path)}, source=source, followers=followers)


def test_each_part_is_opened_once_until_one_looks_again(settings: PipelineSettings) -> None:
    with Pipeline(settings) as pipeline:
        parts = [pipeline.lake_follower, pipeline.views, pipeline.fed["latest"]]
        assert [pipeline.lake_follower, pipeline.views, pipeline.fed["latest"]] == parts
        pipeline.look_again()
        others = [pipeline.lake_follower, pipeline.views, pipeline.fed["latest"]]
        assert not {*map(id, parts)} & {*map(id, others)}


def test_spark_starts_once_and_followers_are_opened_with_it(settings: PipelineSettings) -> None:
    starts = []

    def start() -> SparkSession:
        starts.append(SPARK)
        return SPARK

    pipeline = Pipeline(settings, start)
    before = pipeline.fed["latest"]
    assert starts == []
    assert pipeline.spark is pipeline.spark is pipeline.reopened().spark
    assert starts == [SPARK]
    assert pipeline.fed["latest"] is not before


def test_a_pipeline_without_spark_says_so(settings: PipelineSettings) -> None:
    with pytest.raises(ConfigurationError, match=r"was opened without Spark .* give a session to cdc\.open"):
        _ = Pipeline(settings).spark
