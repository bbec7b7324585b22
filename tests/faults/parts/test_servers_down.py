"""A server goes away and comes back during `cdc follow`: followers wait, say so, and end equal."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import UnreachableError
from cdc.local.endpoints import Service
from tests.support.cdc_inprocess import Following, catch_up, following, lend_bootstrapped, problems, verify
from tests.support.pipelines import MakePipeline, Pipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)


def is_missed(pipeline: Pipeline, part: str) -> bool:
    return any(part in problem for problem in problems(pipeline))


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that all follow; each test ends with all parts up."""
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*SCHEMA, tables=(ORDERS, ITEMS)))


def test_catch_up_gives_up_after_retries(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.5)
    monkeypatch.setattr("cdc.run.follow.capture_monitor.SILENT_SECONDS", 1.0)
    with pipeline.servers.without(Service.CONNECT):
        Workload(pipeline.connection, random.Random(5)).write(5)
        with pytest.raises(UnreachableError, match=r"Kafka Connect \S+ does not answer"):
            catch_up(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_follow_started_without_kafka_waits_for_it(pipeline: Pipeline, spark: SparkSession) -> None:
    with ExitStack() as kafka:
        kafka.enter_context(pipeline.servers.without(Service.KAFKA))
        with following(pipeline, spark, "lake") as running:
            running.wait_for("trying again")
            kafka.close()
            Workload(pipeline.connection, random.Random(4), fresh=2_000_000).write(5)
            running.wait_for("lake: ")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_followers_outlast_every_part(pipeline: Pipeline, spark: SparkSession) -> None:
    work, servers = Workload(pipeline.connection, random.Random(3), fresh=3_000_000), pipeline.servers
    with following(pipeline, spark) as running:
        work.write(20)
        running.wait_for("lake: ")
        take_parts_away(pipeline, work, running)
        running.wait_for("capture: runs again")
        with servers.connect(pipeline.settings.source.dbname) as again:
            replace(work, connection=again).write(20)
        assert verify(pipeline, spark).is_equal, running.said


def take_parts_away(pipeline: Pipeline, work: Workload, running: Following) -> None:
    """One part after the other is down until it is missed; Postgres is the last, with the session of `work`."""
    servers = pipeline.servers
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
