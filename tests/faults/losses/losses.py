"""History that is lost between source and log, how each verb tells of it, and what a recapture has to end with."""

from collections.abc import Callable
from unittest.mock import patch

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure, halt
from cdc.connect.source import publication
from cdc.connect.source.access import connection as source
from cdc.core.errors import CdcError, HistoryLostError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin
from cdc.log.names import transaction_topic
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    problems,
    recapture_all,
    verify,
)
from tests.support.parts.pipelines import Pipeline
from tests.support.waiting import until

TABLES = ("public.things", "public.others")
SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "CREATE TABLE others (id int PRIMARY KEY, name text)",
    "INSERT INTO things SELECT n, n FROM generate_series(1, 20) AS n",
    "INSERT INTO others SELECT n, n::text FROM generate_series(1, 20) AS n",
)
CHANGES = (
    "INSERT INTO things VALUES (100, 1)",
    "UPDATE things SET total = total + 1 WHERE id < 5",
    "DELETE FROM things WHERE id = 7",
    "UPDATE others SET name = 'x' WHERE id = 3",
)


INSERT_ONE = "INSERT INTO things SELECT max(id) + 1, 3 FROM things"
INSERT_OTHER = "INSERT INTO others SELECT max(id) + 1, 'another' FROM others"
DELETE_ONE = "DELETE FROM things WHERE id = (SELECT min(id) FROM things)"
DELETE_OTHER = "DELETE FROM others WHERE id = (SELECT min(id) FROM others)"


def follow_changes(made: Pipeline, spark: SparkSession) -> Pipeline:
    bootstrap(made, spark)
    made.run(*CHANGES)
    catch_up(made, spark)
    return made


def move_slot(pipeline: Pipeline, *also: str) -> None:
    """What is committed while the connector is stopped is passed over by hand; `also` are statements among it."""
    settings = pipeline.settings
    with ConnectClient(settings.connect.url) as client:
        halt(client, settings.connect.connector)
        pipeline.run(DELETE_ONE, INSERT_OTHER, *also)
        until(lambda: slot_is_free(pipeline), "nobody reads from the slot")
        pipeline.run(f"SELECT pg_replication_slot_advance('{settings.source.slot}', pg_current_wal_lsn())")
        client.resume(settings.connect.connector)
        pipeline.run(INSERT_OTHER)


def make_slot_anew(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    with ConnectClient(settings.connect.url) as client:
        halt(client, settings.connect.connector)
        until(lambda: slot_is_free(pipeline), "nobody reads from the slot")
        pipeline.run(
            f"SELECT pg_drop_replication_slot('{settings.source.slot}')",
            DELETE_ONE,
            f"SELECT pg_create_logical_replication_slot('{settings.source.slot}', 'pgoutput')",
        )
        client.resume(settings.connect.connector)


def drop_slot(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    with ConnectClient(settings.connect.url) as client:
        halt(client, settings.connect.connector)
        until(lambda: slot_is_free(pipeline), "nobody reads from the slot")
        pipeline.run(f"SELECT pg_drop_replication_slot('{settings.source.slot}')", DELETE_ONE)


def drop_publication(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    pipeline.run(
        f'DROP PUBLICATION "{settings.source.publication}"',
        DELETE_ONE,
        INSERT_OTHER,
    )
    with ConnectClient(settings.connect.url) as client:
        until(lambda: failure(client, settings.connect.connector) is not None, "the connector fails")


def make_publication_again(pipeline: Pipeline) -> None:
    """What was written without it cannot be decoded, though all looks well again."""
    settings = pipeline.settings
    pipeline.run(f'DROP PUBLICATION "{settings.source.publication}"', DELETE_ONE)
    with source.open_connection(settings.source) as connection:
        names = [TableName.parse(name) for name in (*TABLES, "cdc.heartbeat", "cdc.shapes")]
        publication.publish(connection, settings.source, names)
    pipeline.run(INSERT_OTHER)
    until(lambda: slot_is_free(pipeline), "nobody reads from the slot")


def drop_toolkit_schema(pipeline: Pipeline) -> None:
    pipeline.run("DROP SCHEMA cdc CASCADE", DELETE_ONE)


def lose_topics(pipeline: Pipeline) -> None:
    """All of the pipeline's topics are gone, those of the latest log among them."""
    settings = pipeline.settings
    with ConnectClient(settings.connect.url) as client:
        client.delete(settings.connect.connector)
    pipeline.run(DELETE_ONE)
    admin = AdminClient({"bootstrap.servers": settings.log.bootstrap})
    names = [name for name in admin.list_topics(timeout=10).topics if settings.log.prefix in name]
    with Admin(settings.log) as own:
        own.delete(names)
        until(lambda: not own.topics(names), "the topics are gone")


def cut_order_off(pipeline: Pipeline) -> None:
    """The transaction topic loses all that it has by now, while nobody follows."""
    pipeline.run(DELETE_ONE)
    time_out_topic(pipeline, transaction_topic(pipeline.settings.log.prefix))
    pipeline.run(INSERT_OTHER)


def time_out_topic(pipeline: Pipeline, topic: str) -> None:
    """Retention takes everything that a topic has once the log has what is committed now."""
    heard = pipeline.connection.execute("SELECT pg_current_wal_lsn()").fetchone()
    until(lambda: slot_is(pipeline, f"confirmed_flush_lsn >= '{heard[0]}'" if heard else ""), "the log has it")
    admin = AdminClient({"bootstrap.servers": pipeline.settings.log.bootstrap})
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    # -1: up to the high watermark
    for done in admin.delete_records([TopicPartition(topic, each, -1) for each in partitions]).values():
        done.result()


def slot_is_free(pipeline: Pipeline) -> bool:
    return slot_is(pipeline, "NOT active")


def slot_is(pipeline: Pipeline, condition: str) -> bool:
    found = pipeline.connection.execute(
        f"SELECT {condition} FROM pg_replication_slots WHERE slot_name = %s".encode(), (pipeline.settings.source.slot,)
    ).fetchone()
    return found == (True,)


LOSSES: dict[str, tuple[Callable[[Pipeline], None], str]] = {
    "slot moved": (move_slot, "no commit of the log"),
    "slot made anew": (make_slot_anew, "no commit of the log"),
    "slot dropped": (drop_slot, "is gone, and with it the changes"),
    "publication dropped": (drop_publication, "publication .* is gone"),
    "publication made again": (make_publication_again, "slot .* cannot be decoded on: publication .* does not exist"),
    "schema dropped": (drop_toolkit_schema, "does not know pipeline"),
    "topics lost": (lose_topics, "there is no topic"),
    "order cut off": (cut_order_off, "begins at .*, behind this follower's"),
}


OF_SOURCE = ("slot dropped", "publication dropped", "publication made again", "schema dropped")
"""Losses that the source itself shows, whatever the log has."""
FED_LOSS = "topics lost"
"""The loss that all followers see: the latest log is lost with the topics."""


LIKE_MOVED = "slot made anew"
"""A slot that was made anew stands where nothing of the log is, as one that was moved does."""


def check_reported(pipeline: Pipeline, spark: SparkSession, loss: str) -> None:
    """It happens; each verb tells of it, and of its remedy."""
    lose, told = LOSSES[loss]
    lose(pipeline)
    check_told(pipeline, spark, told, of_source=loss in OF_SOURCE)


def check_told(pipeline: Pipeline, spark: SparkSession, told: str, *, of_source: bool = False) -> None:
    # what has not come yet, never will
    with patch("cdc.run.health.patience.VISIBLE_SECONDS", 0.5):
        for verb in (catch_up, bootstrap):
            with pytest.raises(CdcError, match=f"({told}).*`cdc recapture`"):
                verb(pipeline, spark)
        assert any("`cdc recapture`" in problem for problem in problems(pipeline))
        if of_source:
            with pytest.raises(HistoryLostError, match=f"({told}).*`cdc recapture`"):
                verify(pipeline, spark)


def check_recaptured(pipeline: Pipeline, spark: SparkSession, check: Callable[[], None] = lambda: None) -> None:
    """A recapture copies both tables, and all goes on; `check` is called in between."""
    done = recapture_all(pipeline, spark)
    assert set(map(str, done.copied)) == set(TABLES)
    check()
    pipeline.run(INSERT_ONE, DELETE_OTHER)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert not bootstrap(pipeline, spark).has_changed
    assert not problems(pipeline)
