"""The slot's budget on a real server: it moves on beside others that write, is told when it is held, and is dropped by
plan where the file says so, which ends equal."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import look_up
from cdc.connect.source.slots.drop_intent import DropIntent
from cdc.connect.source.slots.slot_health import SourceLook, look_at_source
from cdc.core.errors import HistoryLostError
from cdc.log.transaction_topic import EndsAbove
from cdc.run.control import control
from cdc.run.control.question import ControlVerb
from cdc.run.health import patience
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.status.document import Document
from tests.support.cdc_inprocess import (
    Following,
    bootstrap,
    catch_up,
    following,
    lend_bootstrapped,
    problems,
    recapture_all,
    started,
    status_of,
    verify,
)
from tests.support.parts.pipelines import END_SENDERS, MakePipeline, Pipeline
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(900)

MIB = 1 << 20
IDLE_TIMEOUT = 180_000
"""The first version that has `idle_replication_slot_timeout`."""
KEPT = 64 * MIB
"""What a slot that moves on keeps at most, and the least budget."""
SCHEMA = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text)",
    "INSERT INTO orders SELECT g, 'n' FROM generate_series(1, 500) g",
    "CREATE TABLE busy (filler text)",
    "ALTER TABLE busy ALTER COLUMN filler SET STORAGE EXTERNAL",
)
FILL = "INSERT INTO busy SELECT repeat('x', 1000000) FROM generate_series(1, %s)"
BUDGET = f"source:\n  slot_budget: {{max_wal_bytes: {KEPT}}}\n"


@pytest.fixture(autouse=True)
def _impatient(quicker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other faster, and a slot is given up, or a task started, after seconds."""
    monkeypatch.setattr("cdc.run.follow.follow.LOOK_SECONDS", 0.4)
    monkeypatch.setattr(patience, "FOLLOW", replace(patience.FOLLOW, idle=1.0, still=1.0))
    monkeypatch.setattr("cdc.run.health.slot_budget.PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr("cdc.run.guard.task_restarts.FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("cdc.run.guard.begin_anew.FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("cdc.run.health.slot_holder.HELD_SECONDS", 0.0)


@pytest.fixture
def pipeline(left: list[Pipeline], make_shared_pipeline: MakePipeline, spark: SparkSession) -> Iterator[Pipeline]:
    """One that the tests share: a heartbeat a second, a budget, a history, and no retries within the task."""

    def make() -> Pipeline:
        made = make_shared_pipeline(*SCHEMA, tables=("public.orders",), lake_only=True)
        made.configure("source:\n", BUDGET + "  heartbeat_seconds: 1\n")
        made.configure("connect:\n", 'connect:\n  overrides: {errors.max.retries: "0"}\n')
        made.configure("followers:\n", "history: [public.orders]\nfollowers:\n")
        return made

    yield from lend_bootstrapped(left, spark, make)


def look(pipeline: Pipeline) -> SourceLook:
    return look_at_source(pipeline.connection, pipeline.settings.source)


def kept(pipeline: Pipeline) -> int:
    found = look(pipeline).slot
    assert found is not None
    return found.retained_bytes


def fill(connection: "psycopg.Connection[object]", megabytes: int) -> None:
    """Write so much WAL in one transaction, of a table that nobody captures."""
    connection.execute(FILL, (megabytes,))


@contextmanager
def other_database(pipeline: Pipeline) -> Iterator["psycopg.Connection[object]"]:
    name = sql.Identifier(f"{pipeline.settings.source.dbname}_other")
    with pipeline.servers.connect() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        with pipeline.servers.connect(f"{pipeline.settings.source.dbname}_other") as other:
            for statement in SCHEMA[2:]:
                other.execute(statement.encode())
            yield other
        admin.execute(sql.SQL("DROP DATABASE {}").format(name))


def slot_problem(pipeline: Pipeline, key: str) -> str:
    """The one line of a problem of the slot, once there is one."""
    found: list[Document] = []

    def is_told() -> bool:
        found[:] = [status_of(pipeline)]
        return key in found[0].problems

    until(is_told, f"{key} is told", every=0.5)
    return str(found[0].problems[key])


def test_an_idle_slot_moves_on_beside_busy_tables_and_databases(pipeline: Pipeline) -> None:
    """300 MB by a table that nobody captures, in large transactions, and by another database; nobody follows."""
    with other_database(pipeline) as other:
        for connection in (pipeline.connection, other) * 3:
            fill(connection, 50)
        assert kept(pipeline) > KEPT
        until(lambda: kept(pipeline) < KEPT, "the slot has moved on", 60.0, every=0.5)


def test_copies_and_comparisons_keep_no_wal(pipeline: Pipeline, spark: SparkSession) -> None:
    """The slot of their snapshot is gone before the first row is read."""
    seen = list[str]()

    def check_slots(at: str) -> None:
        until(lambda: list_keeping(pipeline) == [pipeline.settings.source.slot], f"no other slot keeps WAL at {at}")
        seen.append(at)

    def reach(at: str) -> None:
        if at == "copy.begun":
            check_slots(at)

    def ends_above(*taken: Any) -> EndsAbove:
        check_slots("verify")
        return EndsAbove(*taken)

    with patch("cdc.run.copy.snapshot_copy.reach", reach), patch("cdc.run.verify.pinned_source.EndsAbove", ends_above):
        bootstrap(pipeline, spark, "public.orders")
        catch_up(pipeline, spark)
        assert verify(pipeline, spark).is_equal
    assert {*seen} == {"copy.begun", "verify"}


def list_keeping(pipeline: Pipeline) -> list[str]:
    query = (
        "SELECT slot_name::text FROM pg_replication_slots"
        " WHERE database = current_database() AND restart_lsn IS NOT NULL"
    )
    return [str(name) for (name,) in pipeline.connection.execute(query.encode())]


def test_an_open_transaction_that_holds_the_slot_is_named_and_ended(pipeline: Pipeline) -> None:
    database = pipeline.settings.source.dbname
    # it ends by somebody else: there is nothing to commit
    with closing(pipeline.servers.connect(database)) as other:
        other.execute("SET application_name = 'importer'")
        pid = other.info.backend_pid
        other.execute("BEGIN; INSERT INTO busy VALUES ('a secret value')")
        fill(pipeline.connection, 80)
        told = slot_problem(pipeline, "slot.full")
        assert (
            f"for pid {pid} ({pipeline.settings.source.user}, application importer, database {database}), open" in told
        )
        assert "last query" in told
        assert "secret" not in told
        assert f"→ end it: SELECT pg_terminate_backend({pid})" in told
        pipeline.run(f"SELECT pg_terminate_backend({pid})")
    until(lambda: kept(pipeline) < KEPT, "the slot has moved on", 60.0, every=0.5)


def test_a_task_that_failed_for_a_passing_reason_is_started_again(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark) as running:
        pipeline.run(END_SENDERS)
        running.wait_for("its task was started again, 1 of 10 times; it had failed: ")
        running.wait_for("capture: runs again")
        pipeline.run("UPDATE orders SET note = 'behind the start' WHERE id < 9")
        known = status_of(pipeline).problems["capture.restarts"]
        assert (known.level, known.exit_code) == ("know", 0)
        assert verify(pipeline, spark).is_equal


def stop_capture(pipeline: Pipeline) -> None:
    with ConnectClient(pipeline.settings.connect.url) as client:
        client.stop(pipeline.settings.connect.connector)
        until(lambda: look_up(client, pipeline.settings.connect.connector).rests, "it is stopped")
    until(lambda: (found := look(pipeline).slot) is not None and not found.active, "nobody reads the slot")


def test_of_two_slots_at_one_place_none_waits_for_the_other(pipeline: Pipeline) -> None:
    """The guard of another slot, of any database, says that it drops that; from then on the slot does not count."""
    stop_capture(pipeline)
    beside = {"dbname": f"{pipeline.settings.source.dbname}_other", "slot": "cdc_beside"}
    intent = DropIntent(pipeline.settings.source.model_copy(update=beside))
    with other_database(pipeline) as other:
        other.execute("SELECT pg_create_logical_replication_slot('cdc_beside', 'pgoutput')")
        fill(pipeline.connection, 80)
        found = look(pipeline)
        assert found.other == "cdc_beside"
        assert found.freed_bytes < KEPT
        intent.tell()
        intent.tell()
        found = look(pipeline)
        assert (found.other, found.freed_bytes) == (None, kept(pipeline))
        intent.close()
        until(lambda: look(pipeline).other == "cdc_beside", "it counts again")
        other.execute("SELECT pg_drop_replication_slot('cdc_beside')")
    with ConnectClient(pipeline.settings.connect.url) as client:
        connector.resume(client, pipeline.settings.connect.connector)
    until(lambda: kept(pipeline) < KEPT, "the slot has moved on", 60.0, every=0.5)


def test_a_slot_above_its_budget_is_dropped_by_plan_alone(pipeline: Pipeline, spark: SparkSession) -> None:
    """At first it is told alone; then another slot keeps the same WAL, and a drop would be of no use; then it is."""
    stop_capture(pipeline)
    pipeline.run("SELECT pg_create_physical_replication_slot('other', true)")
    fill(pipeline.connection, 80)
    pipeline.run("UPDATE orders SET note = 'in no log' WHERE id < 5", "DELETE FROM orders WHERE id = 7")
    with started(pipeline, spark, "lake") as told:
        told.wait_for("capture: connector")
        assert "raise source.slot_budget.max_wal_bytes" in slot_problem(pipeline, "slot.full")
        assert look(pipeline).slot is not None
    pipeline.configure(BUDGET, BUDGET.replace("}", ", on_exceeded: drop}"))
    with started(pipeline, spark, "lake") as running:
        running.wait_for("is not dropped: slot other keeps all but ")
        assert look(pipeline).slot is not None
        pipeline.run("SELECT pg_drop_replication_slot('other')")
        running.wait_for(f"slot {pipeline.settings.source.slot} is dropped: it keeps ")
        running.wait_for("slot cdc_")
        running.wait_for("capture: began anew at ")
        running.wait_for("histories lack the versions committed between ")
        running.wait_for("following: ")
        pipeline.run("UPDATE orders SET note = 'behind the new slot' WHERE id < 3")
        assert verify(pipeline, spark).is_equal
        assert SlotDropPlan.read(pipeline.opened()) is None
    assert kept(pipeline) < KEPT
    assert not problems(pipeline)


def test_a_drop_is_finished_by_the_next_process(pipeline: Pipeline, spark: SparkSession) -> None:
    """Killed between the drop and the copies; and whoever has paused the capture lets it go on himself."""
    opened = pipeline.opened()
    position = opened.lake_follower.position()
    assert position is not None
    name = pipeline.settings.source.slot
    control.act(opened, ControlVerb.PAUSE, CAPTURE, "a test")
    stop_capture(pipeline)
    if pipeline.connection.info.server_version >= IDLE_TIMEOUT:
        check_idle_slot_is_told(pipeline)
    plan = SlotDropPlan(
        at=0.0, slot=name, why="w", retained_bytes=1, freed_bytes=1, lsn="0/0", capture=position.log_start.number
    )
    plan.write(opened)
    pipeline.run(f"SELECT pg_drop_replication_slot('{name}')", "UPDATE orders SET note = 'lost' WHERE id = 9")
    assert any(f"slot {name} was dropped" in problem for problem in problems(pipeline))
    with started(pipeline, spark, "lake") as running:
        running.wait_for("not begun anew yet: the capture is paused")
        told = control.act(opened, ControlVerb.RESUME, CAPTURE, "a test")
        assert "`cdc follow` begins the capture anew" in told
        running.wait_for("following: ")
        assert verify(pipeline, spark).is_equal


def check_idle_slot_is_told(pipeline: Pipeline) -> None:
    """A slot that nobody reads for `idle_replication_slot_timeout` is lost, and told with what keeps it from that."""
    pipeline.run("ALTER SYSTEM SET idle_replication_slot_timeout = '1s'", "SELECT pg_reload_conf()")
    try:
        until(lambda: is_lost(pipeline, 0), "the slot is lost", every=0.5)
    finally:
        pipeline.run("ALTER SYSTEM RESET idle_replication_slot_timeout", "SELECT pg_reload_conf()")
    told = slot_problem(pipeline, "slot.lost")
    assert "nobody has read it for too long → raise idle_replication_slot_timeout; `cdc recapture`" in told


def test_a_slot_that_postgres_gave_up_is_begun_anew_by_policy(pipeline: Pipeline, spark: SparkSession) -> None:
    """`max_slot_wal_keep_size` is reached while the capture is paused: a resume alone does not help, which is told."""
    if BUDGET in pipeline.config.read_text():
        pipeline.configure(BUDGET, BUDGET.replace("}", ", on_exceeded: drop}"))
    control.act(pipeline.opened(), ControlVerb.PAUSE, CAPTURE, "a test")
    stop_capture(pipeline)
    pipeline.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        until(lambda: is_lost(pipeline), "the slot is lost")
    finally:
        pipeline.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    told = slot_problem(pipeline, "slot.lost")
    assert "raise max_slot_wal_keep_size; `cdc recapture`" in told
    with pytest.raises(HistoryLostError, match=r"slot .* is lost: .* → .*`cdc recapture`"):
        control.act(pipeline.opened(), ControlVerb.RESUME, CAPTURE, "a test")
    waiting = Following(pipeline, spark, ["lake"])
    waiting.start()
    waiting.wait_for("is dropped: slot ")
    waiting.wait_for("not begun anew yet: the capture is paused")
    waiting.end()
    recapture_all(pipeline, spark)
    assert SlotDropPlan.read(pipeline.opened()) is None
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def is_lost(pipeline: Pipeline, megabytes: int = 20) -> bool:
    fill(pipeline.connection, megabytes)
    pipeline.run("SELECT pg_switch_wal()", "CHECKPOINT")
    found = look(pipeline).slot
    return found is not None and found.wal_status == "lost"
