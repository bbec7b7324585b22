"""A capture that does not move is reported, with its start and a visible cause; each remedy works."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from cdc.config.settings import CAPTURE
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import look_up
from cdc.connect.source.access import connection as source
from cdc.connect.source.schema_history import history_table
from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, message_topic, transaction_topic
from cdc.log.transaction_topic import last_end
from cdc.run.control import control
from cdc.run.control.question import ControlVerb
from cdc.run.health import patience
from cdc.run.verify.verify import verify as run_verify
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
from tests.support.parts.pipelines import END_SENDERS, MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)

TOLD = "see Kafka Connect's log; `cdc bootstrap` starts the connector anew"
WANTED = 'connect:\n  overrides: {message.prefix.include.list: "app"}\n'
MESSAGES = (
    "SELECT pg_logical_emit_message(true, 'app', 'alone')",
    "BEGIN; UPDATE orders SET note = 'a' WHERE id < 9; SELECT pg_logical_emit_message(true, 'app', 'between');"
    " UPDATE orders SET note = 'b' WHERE id < 5; COMMIT",
    "SELECT pg_logical_emit_message(true, 'other', 'of somebody else')",
)


@pytest.fixture(autouse=True)
def _impatient(quicker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks does so more often, and gives up as soon as a standstill is sure."""
    waits = {"OBSERVED_SECONDS": 2.0, "LEAST_QUIET_SECONDS": 3.0, "LOCK_MILLISECONDS": 300, "LOOK_SECONDS": 0.4}
    for name, value in waits.items():
        monkeypatch.setattr(patience, name, value)
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.4)
    # no configuration is changed while these tests look, which would stop a connector for some seconds
    monkeypatch.setattr(patience, "FOLLOW", replace(patience.FOLLOW, idle=1.0, still=1.0))
    monkeypatch.setattr(patience, "VERIFY", replace(patience.VERIFY, idle=1.0))
    monkeypatch.setattr(patience, "VERIFY_ALONE", replace(patience.VERIFY_ALONE, still=5.0))


def configured(make: MakePipeline) -> Pipeline:
    """Two tables, and a heartbeat a second: what is quiet for 3 s is looked at."""
    made = make(*SCHEMA, tables=(ORDERS, ITEMS), lake_only=True)
    made.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
    return made


@pytest.fixture
def pipeline(left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None) -> Iterator[Pipeline]:
    """One that the tests share: each ends with what it has disturbed repaired."""
    yield from lend(left, lambda: configured(make_shared_pipeline))


@pytest.fixture
def own_pipeline(make_pipeline: MakePipeline) -> Pipeline:
    """One that is bootstrapped, or left, in its own way."""
    return configured(make_pipeline)


def work_on(pipeline: Pipeline, seed: int) -> Workload:
    """Writes to a pipeline on which others, of other seeds, may have written."""
    return Workload(pipeline.connection, random.Random(seed), fresh=1_000_000 * seed)


def want_messages(pipeline: Pipeline) -> None:
    """Configure that messages of applications are captured, unless that is so already."""
    if WANTED not in pipeline.config.read_text():
        pipeline.configure("connect:\n", WANTED)


def not_started() -> SparkSession:
    raise AssertionError("Spark is not needed to find that out")


def check_refused(pipeline: Pipeline, told: str) -> None:
    """`verify` says it, and does not start Spark for that."""
    opened = pipeline.opened(not_started)
    with pytest.raises(PreconditionError, match=told):
        run_verify(opened, tuple(opened.settings.followers), None, 10)


def newest(pipeline: Pipeline) -> Lsn:
    log = pipeline.settings.log
    with Reader(log) as reader:
        found = last_end(reader, transaction_topic(log.prefix))
    assert found
    return found.lsn


def send_messages(pipeline: Pipeline) -> int:
    log = pipeline.settings.log
    topic = message_topic(log.prefix)
    with Reader(log) as reader:
        end = reader.end([topic])[topic].get(0, 0)
        return sum(1 for _ in reader.read(topic, 0, 0, end))


def test_logical_messages_of_applications_stop_nothing(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    work = work_on(pipeline, 1)
    pipeline.run(*MESSAGES)
    work.write(10)
    catch_up(pipeline, spark)
    assert not send_messages(pipeline)
    # wanted from now on: their topic is made before the connector hears of them
    want_messages(pipeline)
    bootstrap(pipeline, spark)
    pipeline.run(*MESSAGES)
    work.write(10)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert send_messages(pipeline) == 2


def test_blocked_producer_is_reported_and_bootstrap_repairs_it(pipeline: Pipeline, spark: SparkSession) -> None:
    want_messages(pipeline)
    bootstrap(pipeline, spark)
    work = work_on(pipeline, 3)
    with Admin(pipeline.settings.log) as admin:
        admin.delete_wholly([message_topic(pipeline.settings.log.prefix)])
    # else the topic would be missed before anything stands still
    pipeline.configure(WANTED, "connect:\n")
    pipeline.run(MESSAGES[0])
    work.write(5)
    with pytest.raises(PreconditionError, match="capture stands still since"):
        catch_up(pipeline, spark)
    with following(pipeline, spark) as running:
        running.wait_for("capture: stands still since")
        assert (
            f"is RUNNING, its task is RUNNING, slot {pipeline.settings.source.slot} is read → {TOLD}"
            in running.said[-1]
        )
        assert any("capture stands still since" in problem for problem in problems(pipeline))
        with pytest.raises(PreconditionError, match="capture stands still since"):
            verify(pipeline, spark)
        assert sum("stands still" in line for line in running.said) == 1
        bootstrap(pipeline, spark)
        running.wait_for("capture: runs again")
        assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


@pytest.mark.further
def test_bootstrap_repairs_a_pipeline_of_an_older_version(
    own_pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same standstill and remedy as of a blocked producer, for another reason."""
    pipeline = own_pipeline
    with monkeypatch.context() as before:
        before.setattr("cdc.connect.capture.debezium_properties.sends_messages", lambda _: True)
        before.setattr("cdc.connect.capture.topics.message_topic", lambda prefix: f"{prefix}.elsewhere")
        bootstrap(pipeline, spark)
    pipeline.run(MESSAGES[0])
    work_on(pipeline, 4).write(5)
    with pytest.raises(PreconditionError, match=f"capture stands still since .*{TOLD}"):
        catch_up(pipeline, spark)
    bootstrap(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def act(pipeline: Pipeline, what: str) -> None:
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        if what == "deleted":
            client.delete(capture.connector)
        else:
            client._call("PUT", f"/connectors/{capture.connector}/{'pause' if what == 'PAUSED' else 'stop'}")
            until(lambda: look_up(client, capture.connector).idle == what, f"it is {what}")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param("STOPPED", "connector {name} is STOPPED: .* → `cdc resume capture` lets it go on", id="stopped"),
        pytest.param(
            "deleted", "Kafka Connect has no connector {name}: .* → `cdc bootstrap` makes it again", id="deleted"
        ),
        further("paused", "PAUSED", "connector {name} is PAUSED: .* → `cdc resume capture` lets it go on"),
    ],
)
def test_paused_or_deleted_connector_is_reported(pipeline: Pipeline, spark: SparkSession, what: str, told: str) -> None:
    """To the product, "paused" is one of the two idle states of Connect, as "stopped" is."""
    bootstrap(pipeline, spark)
    expected = told.format(name=pipeline.settings.connect.connector).replace(".* ", "(.*)the newest commit(.*) ")
    work = work_on(pipeline, {"STOPPED": 5, "PAUSED": 6}.get(what, 7))
    with following(pipeline, spark) as running:
        work.write(5)
        running.wait_for("lake: ")
        act(pipeline, what)
        work.write(5)
        running.wait_for(told.partition(":")[0].format(name=pipeline.settings.connect.connector))
        assert any("the newest commit in the log is from" in line for line in running.said)
        check_refused(pipeline, expected)
    with pytest.raises(PreconditionError, match=expected):
        catch_up(pipeline, spark)
    [problem] = problems(pipeline)
    assert told.partition(":")[0].format(name=pipeline.settings.connect.connector) in problem
    with following(pipeline, spark) as running:
        running.wait_for("capture: ")
        if what == "deleted":
            bootstrap(pipeline, spark)
        else:
            control.act(pipeline.opened(), ControlVerb.RESUME, CAPTURE, "a test")
        running.wait_for("capture: runs again")
        assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


def test_lock_on_heartbeats_is_reported_with_its_holder(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        with pipeline.servers.connect(pipeline.settings.source.dbname) as other, other.transaction():
            other.execute("LOCK TABLE cdc.heartbeat")
            running.wait_for(f"session {other.info.backend_pid} locks the heartbeat table → end that session")
        running.wait_for("capture: runs again")
        work_on(pipeline, 8).write(5)
        assert verify(pipeline, spark).is_equal


@contextmanager
def writing(pipeline: Pipeline) -> Iterator[None]:
    """A transaction is open meanwhile that has written, and will be undone."""
    with pipeline.servers.connect(pipeline.settings.source.dbname) as other, other.transaction(force_rollback=True):
        other.execute("UPDATE orders SET note = 'never' WHERE id = 1")
        yield


def test_slow_capture_is_no_standstill(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.run("CREATE TABLE elsewhere (id int, filler text)")
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        with writing(pipeline):
            pipeline.run(
                # none of it is sent: Postgres walks through it alone
                "INSERT INTO elsewhere SELECT g, repeat('x', 200) FROM generate_series(1, 200000) g",
                # all of it is, for longer than nothing may move
                "UPDATE items SET what = repeat('y', 100 + order_id)",
                "INSERT INTO items SELECT g, 1, repeat('z', 100) FROM generate_series(10000, 70000) g",
            )
            reached = source.current_lsn(pipeline.connection)
            until(lambda: newest(pipeline) > reached, "it is captured", 600.0, every=1.0)
        assert verify(pipeline, spark, TableName.parse(ITEMS)).is_equal
    assert not [line for line in running.said if "capture" in line]


def test_verify_reports_a_failed_connector_at_once(own_pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline = own_pipeline
    pipeline.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
    bootstrap(pipeline, spark)
    name = pipeline.settings.connect.connector
    pipeline.run(END_SENDERS)
    with ConnectClient(pipeline.settings.connect.url) as client:
        until(lambda: look_up(client, name).failure is not None, "the connector gives up")
    check_refused(pipeline, f"connector {name} failed: .*the newest commit in the log is from .*`cdc bootstrap` starts")


@pytest.mark.parametrize("policy", ["evolve", "additive"])
def test_table_of_a_deleted_topic_is_copied_again(own_pipeline: Pipeline, spark: SparkSession, *, policy: str) -> None:
    pipeline = own_pipeline
    pipeline.configure("on_schema_change: evolve", f"on_schema_change: {policy}")
    bootstrap(pipeline, spark)
    topic = change_topic(pipeline.settings.log.prefix, TableName.parse(ORDERS))
    with following(pipeline, spark) as running:
        if policy == "evolve":
            # it has a place in the topic, of which the new one knows nothing
            work_on(pipeline, 9).write(20)
            running.wait_for("lake: ")
        with Admin(pipeline.settings.log) as admin:
            admin.delete_wholly([topic])
        running.wait_for(f": topic {topic} is gone; the others go on → `cdc follow` copies it as it is now")
        running.wait_for(f"{ORDERS} is copied again")
        work_on(pipeline, 10).write(5)
        assert verify(pipeline, spark).is_equal
        assert not problems(pipeline)
    assert len([line for line in running.said if f"{ORDERS} is copied again" in line]) == 1


def test_deleted_topic_of_shapes_is_made_again(own_pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline, log = own_pipeline, own_pipeline.settings.log
    bootstrap(pipeline, spark)
    topic = change_topic(log.prefix, history_table(pipeline.settings.source).name)
    told = f"topic {topic} is gone → `cdc bootstrap` makes it again"
    with following(pipeline, spark) as running:
        with Admin(log) as admin:
            admin.delete_wholly([topic])
        running.wait_for(f"capture: {told}")
        assert problems(pipeline) == [told]
        work_on(pipeline, 9).write(5)
        bootstrap(pipeline, spark)
        running.wait_for("capture: runs again")
        assert verify(pipeline, spark).is_equal
        assert not problems(pipeline)


def test_deleted_topic_is_named_where_nobody_follows(own_pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline = own_pipeline
    bootstrap(pipeline, spark)
    topic = change_topic(pipeline.settings.log.prefix, TableName.parse(ORDERS))
    with Admin(pipeline.settings.log) as admin:
        admin.delete_wholly([topic])
    told = f"topic {topic} is gone → `cdc follow` copies {ORDERS} again by itself"
    assert told in problems(pipeline)
    check_refused(pipeline, told)
    with following(pipeline, spark) as running:
        running.wait_for(f"{ORDERS} is copied again")
        assert verify(pipeline, spark).is_equal
        assert not problems(pipeline)


def test_deleted_order_of_commits_is_told_at_once(own_pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline = own_pipeline
    bootstrap(pipeline, spark)
    topic = transaction_topic(pipeline.settings.log.prefix)
    with started(pipeline, spark, *pipeline.settings.followers) as running:
        running.wait_for("following")
        with Admin(pipeline.settings.log) as admin:
            admin.delete_wholly([topic])
        running.wait_for(f"there is no topic {topic}")
        assert "`cdc recapture` starts the capture anew" in running.said[-1]
    work_on(pipeline, 9).write(5)
    recapture_all(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)
