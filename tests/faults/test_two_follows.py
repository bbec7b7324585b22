"""A `cdc follow` that was overtaken ends with one line; the other one goes on, and all ends equal."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import RefusedError
from tests.support.cdc_inprocess import catch_up, following, lend_bootstrapped, started, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, n int)",
    "INSERT INTO things SELECT n, 0 FROM generate_series(1, 9) n",
)


def elsewhere(pipeline: Pipeline) -> Pipeline:
    """The same pipeline on another machine: its state folder is another one."""
    folder = pipeline.config.parent / "elsewhere"
    folder.mkdir()
    text = pipeline.config.read_text()
    lake = pipeline.settings.delta[1].path
    assert "path: lake" in text
    (folder / "cdc.yaml").write_text(text.replace("path: lake", f"path: {lake}"))
    return replace(pipeline, config=folder / "cdc.yaml")


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*MADE, tables=("public.things",)))


def test_overtaken_follow_ends(pipeline: Pipeline, spark: SparkSession) -> None:
    with started(pipeline, spark, *pipeline.settings.followers) as first:
        pipeline.run("UPDATE things SET n = n + 1")
        first.wait_for("lake: ")
        with following(elsewhere(pipeline), spark, "latest") as second:
            second.wait_for("following: latest")

            def is_over() -> bool:
                pipeline.run("UPDATE things SET n = n + 1")
                return first.failure is not None or not second.is_running

            until(is_over, "one of them has ended", every=0.5)
            assert second.is_running, second.said
            assert isinstance(first.failure, RefusedError)
            assert str(first.failure).startswith("another `cdc follow` has taken over: it writes as cdc-")
            assert not any("trying again" in line for line in first.said), first.said
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_removed_lease_is_noticed(pipeline: Pipeline, spark: SparkSession) -> None:
    with started(pipeline, spark, "lake") as running:
        running.wait_for("following: ")
        shutil.rmtree(Path(pipeline.settings.pipeline.state))
        running.join()
    assert isinstance(running.failure, RefusedError)
    assert "the lease of follower lake is lost: " in str(running.failure)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
