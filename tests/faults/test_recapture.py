"""Lost history between source and log is found, and `cdc recapture` repairs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import httpx
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from cdc.columns.netting.ends import parse_confirmed_lsn
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure, halt
from cdc.connect.source import connection as source
from cdc.connect.source import publication
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.errors import CdcError, HistoryLostError
from cdc.core.position import Lsn, parse_lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, debezium_heartbeat_topic, transaction_topic
from cdc.log.transaction_topic import log_bounds, read_ends_between
from cdc.run.health.confirmed import ConfirmedLsns
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    following,
    lend,
    problems,
    recapture_all,
    started,
    verify,
)
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline, Pipeline
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


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that the lake follows, with changes applied; each test ends with all of it repaired."""
    yield from lend(left, lambda: follow_changes(make_shared_pipeline(*SCHEMA, tables=TABLES, lake_only=True), spark))


@pytest.fixture
def fed_pipeline(make_pipeline: MakePipeline, spark: SparkSession) -> Pipeline:
    """The same with all followers."""
    return follow_changes(make_pipeline(*SCHEMA, tables=TABLES), spark)


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


@pytest.mark.parametrize(
    "loss", [further(loss, loss) if loss == LIKE_MOVED else loss for loss in LOSSES if loss != FED_LOSS]
)
def test_lost_history_is_reported_and_recaptured(pipeline: Pipeline, spark: SparkSession, loss: str) -> None:
    check_reported(pipeline, spark, loss)
    check_recaptured(pipeline, spark)


INTERRUPTED = (
    "cdc.run.copy.recapture._drop_old_capture",
    "cdc.run.copy.recapture._read_ordering_ends",
    "cdc.run.copy.recapture._swap_copies",
    # between two tables' copies
    "cdc.sinks.lake.follower.DeltaFollower.start_over",
)
"""Where a recapture is killed."""


def test_followers_go_on_after_interrupted_recaptures(fed_pipeline: Pipeline, spark: SparkSession) -> None:
    """One pipeline for all places where a recapture may be killed, one after the other."""
    check_reported(fed_pipeline, spark, FED_LOSS)
    indexed = count_documents(fed_pipeline)

    def check_documents() -> None:
        # who searches has what was there, until the followers behind the lake go on
        assert count_documents(fed_pipeline) == indexed

    for step in INTERRUPTED:
        check_interrupted(fed_pipeline, spark, step)
        check_documents()
    check_recaptured(fed_pipeline, spark, check_documents)


def check_interrupted(pipeline: Pipeline, spark: SparkSession, step: str) -> None:
    """Each verb tells of a recapture that was killed at this step."""
    with patch(step, kill), pytest.raises(Killed):
        recapture_all(pipeline, spark)
    for verb in (catch_up, bootstrap):
        with pytest.raises(
            HistoryLostError, match="a recapture was begun and not finished → run `cdc recapture` again"
        ):
            verb(pipeline, spark)


def check_reported(pipeline: Pipeline, spark: SparkSession, loss: str) -> None:
    """Each verb tells of the loss, and of its remedy."""
    lose, told = LOSSES[loss]
    lose(pipeline)
    # what has not come yet, never will
    with patch("cdc.run.health.patience.VISIBLE_SECONDS", 0.5):
        for verb in (catch_up, bootstrap):
            with pytest.raises(CdcError, match=f"({told}).*`cdc recapture`"):
                verb(pipeline, spark)
        assert any("`cdc recapture`" in problem for problem in problems(pipeline))
        if loss in OF_SOURCE:
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


MESSAGES = "SELECT pg_logical_emit_message(false, 'app', 'hello') FROM generate_series(1, 100)"


def test_logical_messages_are_no_gap(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=TABLES, lake_only=True)
    pipeline.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
    bootstrap(pipeline, spark)
    place = wait_for_confirmed_message(pipeline)
    position = pipeline.opened().lake_follower.position()
    assert position is not None
    log, beats = pipeline.settings.log, heartbeat_table(pipeline.settings.source).name
    confirmed = ConfirmedLsns(log, position.log_start, change_topic(log.prefix, beats))
    commits = log_commits(pipeline)
    assert all(confirmed.include(lsn) for lsn in (place, *commits[-3:]))
    assert not any(confirmed.include(Lsn(lsn + 1)) for lsn in (place, *commits[-3:]))
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_captured_logical_messages_are_no_gap(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=TABLES, lake_only=True)
    pipeline.configure("connect:\n", 'connect:\n  overrides: {message.prefix.include.list: "app"}\n')
    bootstrap(pipeline, spark)
    with ConnectClient(pipeline.settings.connect.url) as client:
        for _ in range(2):
            stand_at_a_message(pipeline)
            restart(pipeline, client)
    pipeline.run(DELETE_ONE)
    catch_up(pipeline, spark)
    assert not bootstrap(pipeline, spark).has_changed
    assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


def restart(pipeline: Pipeline, client: ConnectClient) -> None:
    halt(client, pipeline.settings.connect.connector)
    client.resume(pipeline.settings.connect.connector)
    until(lambda: not slot_is_free(pipeline), "the connector reads again")


def wait_for_confirmed_message(pipeline: Pipeline) -> Lsn:
    """The LSN of a message outside of transactions that Debezium confirms with a heartbeat, once there is one."""
    log, topic, found = pipeline.settings.log, debezium_heartbeat_topic(pipeline.settings.log.prefix), set[Lsn]()

    def is_there() -> bool:
        pipeline.run(MESSAGES)
        with Reader(log) as reader:
            beats = reader.read(topic, 0, 0, reader.end([topic])[topic].get(0, 0))
            confirmed = {lsn for beat in beats if (lsn := parse_confirmed_lsn(beat.value or b"{}"))}
        found.update(confirmed - set(log_commits(pipeline)))
        return bool(found)

    until(is_there, "a message is confirmed")
    return min(found)


def log_commits(pipeline: Pipeline) -> list[Lsn]:
    topic = transaction_topic(pipeline.settings.log.prefix)
    with Reader(pipeline.settings.log) as reader:
        return [Lsn(lsn) for lsn in read_ends_between(reader, topic, 0, log_bounds(reader, topic)[1]).lsn.tolist()]


def stand_at_a_message(pipeline: Pipeline) -> None:
    """Return when the slot is confirmed up to a message: the log has no commit there."""
    query = b"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"

    def stands() -> bool:
        pipeline.run(MESSAGES)
        row = pipeline.connection.execute(query, (pipeline.settings.source.slot,)).fetchone()
        assert row is not None
        return parse_lsn(row[0]) not in log_commits(pipeline)

    until(stands, "a message is confirmed")


def count_documents(pipeline: Pipeline) -> int:
    """How many documents a search of `things` finds."""
    found = httpx.get(f"{pipeline.servers.values.search_url}/{pipeline.settings.pipeline.name}-public-things/_count")
    return int(found.json()["count"])


def test_slot_moved_during_follow_ends_it(pipeline: Pipeline, spark: SparkSession) -> None:
    with started(pipeline, spark, *pipeline.settings.followers) as running:
        running.wait_for("following")
        with holding_restart_lsn(pipeline):
            # what is held is at or below the log's end from here on
            pipeline.run(INSERT_OTHER)
            running.wait_for("lake: ")
            move_slot(pipeline)
        running.join()
    assert isinstance(running.failure, HistoryLostError)
    assert "no commit of the log" in str(running.failure)
    # a monitor that asks for the status later sees it, too
    assert any("follower lake has stopped, and nobody follows it: " in problem for problem in problems(pipeline))
    check_recaptured(pipeline, spark)


@contextmanager
def holding_restart_lsn(pipeline: Pipeline) -> Iterator[None]:
    """An open transaction keeps the slot's restart_lsn; else Debezium refuses to start when a moved slot moves that.

    Whoever makes a slot on this server waits meanwhile.
    """
    with source.open_connection(pipeline.settings.source) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_logical_emit_message(true, 'held', '')")
        yield


def test_slot_moved_beyond_the_offset_is_told(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark, *pipeline.settings.followers) as running:
        running.wait_for("following")
        # a checkpoint logs the running transactions, behind which a slot may restart
        move_slot(pipeline, "CHECKPOINT", INSERT_OTHER)
        running.wait_for("no commit of the log is at that LSN: somebody moved the slot")
        said = next(line for line in running.said if "somebody moved the slot" in line)
    assert " failed: " in said
    assert "`cdc recapture`" in said
    assert any("somebody moved the slot" in problem for problem in problems(pipeline))
    check_recaptured(pipeline, spark)


@pytest.mark.parametrize("how", ["deleted", "timed out"])
def test_lost_change_topic_stops_only_its_table(
    pipeline: Pipeline, spark: SparkSession, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # all changes that the log has are there when it is followed
    monkeypatch.setattr("cdc.log.run_reader.PATIENCE_SECONDS", 3.0)
    settings = pipeline.settings
    pipeline.run(DELETE_ONE, "UPDATE others SET name = 'y'")
    topic = change_topic(settings.log.prefix, TableName.parse("public.things"))
    time_out_topic(pipeline, topic)
    if how == "deleted":
        with Admin(settings.log) as admin:
            admin.delete([topic])
            until(lambda: not admin.topics([topic]), "the topic is gone")
    with following(pipeline, spark) as running:
        running.wait_for("public.things is followed no further")
        running.wait_for("public.things is copied again")
        pipeline.run(INSERT_ONE, DELETE_OTHER)
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "nothing is stopped")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


class Killed(Exception):
    """The process ends here."""


def kill(*_: object, **__: object) -> None:
    raise Killed
