"""A part goes away while followers follow, and comes back: they wait, say so, and end equal."""

import json
import random
from contextlib import ExitStack

import pytest

from cdc.local.endpoints import Part
from tests.commands import cdc, started
from tests.pipelines import MakePipeline, Pipeline
from tests.servers.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)


def problems(pipeline: Pipeline) -> list[str]:
    ended = cdc(pipeline, "status", "--json")
    assert ended.returncode == 3, ended.stderr
    found: list[str] = json.loads(ended.stdout)["problems"]
    return found


def test_followers_outlast_every_part(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    work, servers = Workload(pipeline.connection, random.Random(3)), pipeline.servers
    ended = cdc(pipeline, "bootstrap")
    assert ended.returncode == 0, ended.stderr
    with started(pipeline, "follow") as running:
        work.write(20)
        running.wait_for("lake: ")
        with servers.without(Part.KAFKA):
            work.write(20)
            running.wait_for("trying again")
            assert any("Kafka" in problem for problem in problems(pipeline))
        with servers.without(Part.CONNECT):
            work.write(20)
            assert any("Kafka Connect" in problem for problem in problems(pipeline))
        with servers.without(Part.SEARCH):
            work.write(20)
            running.wait_for("search: OpenSearch")
        ended = cdc(pipeline, "verify", "--json", "--wait", "600")
    assert json.loads(ended.stdout)["equal"], ended.stdout + running.said


def test_a_follow_that_finds_no_kafka_waits_for_it(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    assert cdc(pipeline, "bootstrap").returncode == 0
    with ExitStack() as kafka:
        kafka.enter_context(pipeline.servers.without(Part.KAFKA))
        with started(pipeline, "follow", "--follower", "lake", "--until-caught-up") as running:
            running.wait_for("trying again")
            kafka.close()
            running.wait_until(lambda: running.ended == 0, "it catches up and ends")
