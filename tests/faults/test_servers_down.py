"""A server goes away and comes back during `cdc follow`: followers wait, say so, and end equal."""

import random
from contextlib import ExitStack
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import UnreachableError
from cdc.local.endpoints import Service
from tests.support.cdc_inprocess import bootstrap, catch_up, following, problems, verify
from tests.support.pipelines import MakePipeline, Pipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)


def is_missed(pipeline: Pipeline, part: str) -> bool:
    return any(part in problem for problem in problems(pipeline))


def test_followers_outlast_every_part(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    work, servers = Workload(pipeline.connection, random.Random(3)), pipeline.servers
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        work.write(20)
        running.wait_for("lake: ")
        with servers.without(Service.KAFKA):
            work.write(20)
            running.wait_for("trying again")
            assert is_missed(pipeline, "Kafka")
        with servers.without(Service.CONNECT):
            work.write(20)
            running.wait_for("capture: Kafka Connect")
            assert is_missed(pipeline, "Kafka Connect")
        with servers.without(Service.SEARCH):
            work.write(20)
            running.wait_for("search: OpenSearch")
        with servers.without(Service.POSTGRES):
            running.wait_for("capture: Postgres")
            assert is_missed(pipeline, "Postgres")
        running.wait_for("capture: runs again")
        with servers.connect(pipeline.settings.source.dbname) as again:
            replace(work, connection=again).write(20)
        assert verify(pipeline, spark).is_equal, running.said


def test_follow_started_without_kafka_waits_for_it(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    with ExitStack() as kafka:
        kafka.enter_context(pipeline.servers.without(Service.KAFKA))
        with following(pipeline, spark, "lake") as running:
            running.wait_for("trying again")
            kafka.close()
            Workload(pipeline.connection, random.Random(4)).write(5)
            running.wait_for("lake: ")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_catch_up_gives_up_after_retries(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.5)
    monkeypatch.setattr("cdc.run.follow.capture_monitor.SILENT_SECONDS", 1.0)
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    with pipeline.servers.without(Service.CONNECT):
        Workload(pipeline.connection, random.Random(5)).write(5)
        with pytest.raises(UnreachableError, match=r"Kafka Connect \S+ does not answer"):
            catch_up(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
