"""The whole path on real parts: Postgres, Debezium, Kafka, Spark, Delta, OpenSearch, and the latest log."""

import random

import pytest
from pyspark.sql import SparkSession

from cdc.cli.output import say
from cdc.core.errors import RefusedError
from cdc.run.follow import follow
from cdc.run.pipeline import lease
from cdc.run.verify import verify
from tests.pipelines import MakePipeline
from tests.servers.workload import ITEMS, ORDERS, SCHEMA, Workload
from tests.verbs import booted, caught_up, following, verified

pytestmark = pytest.mark.timeout(900)


def test_every_kind_of_change_reaches_every_follower(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    assert set(booted(pipeline, spark).copied.values()) == {2000, 1000}
    assert not booted(pipeline, spark).changed
    work = Workload(pipeline.connection, random.Random(7))
    with following(pipeline, spark):
        work.write(300)
        pipeline.run("TRUNCATE items", "INSERT INTO items VALUES (1, 1, 'behind the truncate')")
        work.write(100)
    caught_up(pipeline, spark)
    report = verified(pipeline, spark)
    assert report.equal, report.as_json()


def test_tables_join_while_the_others_are_followed(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    booted(pipeline, spark)
    work = Workload(pipeline.connection, random.Random(8))
    with following(pipeline, spark):
        work.write(50)
        pipeline.configure("- public.orders", "- public.orders\n    - public.items")
        assert {str(table) for table in booted(pipeline, spark).copied} == {ITEMS}
        work.write(100)
    caught_up(pipeline, spark)
    report = verified(pipeline, spark)
    assert report.equal, report.as_json()


def test_verification_names_what_differs(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    booted(pipeline, spark)
    lake = pipeline.settings.delta[1].path
    spark.sql(f"UPDATE delta.`{lake}/public/orders` SET total = 0, note = 'forged' WHERE id = 7")
    spark.sql(f"DELETE FROM delta.`{lake}/public/orders` WHERE id = 8")
    pipeline.run("UPDATE orders SET customer = 'x' WHERE id = 9")
    caught_up(pipeline, spark)
    found = verify(pipeline.settings, spark, ("lake",), patience=60, most=10)
    verdict = found.followers["lake"][pipeline.settings.tables[0]].comparison
    assert verdict is not None
    assert (verdict.differing, verdict.missing, verdict.extra) == (1, 1, 0)
    assert {(key.key["id"], key.kind, key.columns) for key in verdict.keys} == {
        ("7", "differing", ("total", "note")),
        ("8", "missing", ()),
    }


def test_a_second_follow_of_one_follower_is_refused(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    with lease(pipeline.settings, "lake"), pytest.raises(RefusedError, match="already being followed by process"):
        follow(pipeline.settings, lambda: spark, ("lake",), say, until_caught_up=False)
