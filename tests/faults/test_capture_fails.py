"""Each verb that depends on the capture reports in one line when it will not go on by itself."""

import random

import pytest
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure
from cdc.core.errors import PreconditionError
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, problems, verify
from tests.support.parts.pipelines import END_SENDERS, MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ORDERS, SCHEMA, Workload


def give_up(pipeline: Pipeline) -> None:
    """Have the connector, which must not try again, meet a failure."""
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        pipeline.run(END_SENDERS)
        until(lambda: failure(client, capture.connector) is not None, "the connector gives up")


def test_failed_connector_is_reported_and_restarted(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    pipeline.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
    bootstrap(pipeline, spark)
    settings = pipeline.settings
    give_up(pipeline)
    Workload(pipeline.connection, random.Random(2)).write(20)
    with pytest.raises(PreconditionError, match=f"connector {settings.connect.connector} failed: .*`cdc bootstrap`"):
        catch_up(pipeline, spark)
    assert any(f"connector {settings.connect.connector} failed: " in problem for problem in problems(pipeline))
    assert not bootstrap(pipeline, spark).has_changed
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_search_only_follow_waits_for_capture_repair(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    # nor does `cdc follow` start it
    pipeline.configure("connect:\n", 'connect:\n  restarts: 0\n  overrides: {errors.max.retries: "0"}\n')
    bootstrap(pipeline, spark)
    give_up(pipeline)
    Workload(pipeline.connection, random.Random(3)).write(20)
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.2)
    with following(pipeline, spark, "lake"):
        alone = Following(pipeline, spark, ["search"], until_caught_up=True)
        alone.start()
        alone.wait_for("capture: connector")
        bootstrap(pipeline, spark)
        alone.join()
    assert alone.failure is None
    # the look at the capture may say behind it that this runs again
    assert "search: caught up" in [line for line in alone.said if not line.startswith("capture: ")][-1]
