"""A server goes away and comes back during `cdc follow`: followers wait, say so, and end equal."""

import random
from contextlib import ExitStack
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import UnreachableError
from cdc.local.endpoints import Service
from cdc.run.health import patience
from tests.support.cdc_inprocess import Following, bootstrap, catch_up, following, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline, expect_no_kafka
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)
BESIDE = "lake-beside"
"""The name of the other pipeline's follower."""
THINGS = ("CREATE TABLE things (id int PRIMARY KEY)", "INSERT INTO things VALUES (1)")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and tries follow each other faster, and a part counts as gone sooner, than at a user's."""
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.5)
    monkeypatch.setattr(patience, "FOLLOW", replace(patience.FOLLOW, silent=1.0))
    monkeypatch.setattr("cdc.run.follow.streams.LONGEST_WAIT_SECONDS", 2.0)


def is_missed(pipeline: Pipeline, part: str) -> bool:
    return any(part in problem for problem in problems(pipeline))


def test_followers_outlast_every_part(make_pipeline: MakePipeline, impatient: None, spark: SparkSession) -> None:
    """One part after the other is down until it is missed; Postgres is the last, with all sessions.

    Beside the followers that run all the time, another pipeline meets the same outages at its start.
    """
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    beside = make_pipeline(*THINGS, tables=("public.things",), lake_only=True)
    # one session has a query of a name once
    beside.configure("  lake:\n", f"  {BESIDE}:\n")
    bootstrap(pipeline, spark)
    bootstrap(beside, spark)
    work = Workload(pipeline.connection, random.Random(3))
    with following(pipeline, spark) as running:
        work.write(20)
        running.wait_for("lake: ")
        take_kafka_away(pipeline, beside, work, running, spark)
        take_connect_away(pipeline, beside, work, running, spark)
        with pipeline.servers.without(Service.SEARCH):
            work.write(20)
            running.wait_for("search: OpenSearch")
        with pipeline.servers.without(Service.POSTGRES):
            running.wait_for("capture: Postgres")
            assert is_missed(pipeline, "Postgres")
        running.wait_for("capture: runs again")
        with pipeline.servers.connect(pipeline.settings.source.dbname) as again:
            replace(work, connection=again).write(20)
        assert verify(pipeline, spark).is_equal, running.said


def take_kafka_away(
    pipeline: Pipeline, beside: Pipeline, work: Workload, running: Following, spark: SparkSession
) -> None:
    """A follow that starts meanwhile waits for it."""
    with ExitStack() as kafka:
        kafka.enter_context(pipeline.servers.without(Service.KAFKA))
        with following(beside, spark) as started:
            work.write(20)
            for each in (running, started):
                each.wait_for("trying again")
            with pytest.MonkeyPatch.context() as patched:
                expect_no_kafka(patched)
                assert is_missed(pipeline, "Kafka")
            kafka.close()
            beside.run("INSERT INTO things VALUES (2)")
            started.wait_for(f"{BESIDE}: ")
            # the capture moves again, so the next outage is told by its name
            running.wait_for(" changes, at ")


def take_connect_away(
    pipeline: Pipeline, beside: Pipeline, work: Workload, running: Following, spark: SparkSession
) -> None:
    """A follow until it has caught up gives up after retries."""
    with pipeline.servers.without(Service.CONNECT):
        work.write(20)
        beside.run("INSERT INTO things VALUES (3)")
        running.wait_for("capture: Kafka Connect")
        assert is_missed(pipeline, "Kafka Connect")
        with pytest.raises(UnreachableError, match=r"Kafka Connect \S+ does not answer"):
            catch_up(beside, spark)
    catch_up(beside, spark)
    assert verify(beside, spark).is_equal
