"""A standby is decoded and copied from, what is written goes to its primary, and it takes that one's place."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql
from pyspark.sql import SparkSession

from cdc.connect.source.access.connection import open_connection
from cdc.connect.source.slots.slot import check_wal_kept, open_slot_snapshot, read_slot, read_state
from cdc.connect.source.slots.slot_health import look_at_source
from cdc.connect.source.slots.standby import open_decoding, wait_for_replay
from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.local.endpoints import SUPERUSER, Endpoints, Service
from cdc.local.services import down, up, wipe
from cdc.local.state_dir import Home
from cdc.run.doctor.doctor import Doctor
from cdc.torture.proxy import Proxy
from tests.support.beside import repeated
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, started, verify
from tests.support.lake.read_rows import read_rows
from tests.support.parts.pipelines import Pipeline, pipelines
from tests.support.parts.removal import remove_traces
from tests.support.parts.servers_fixture import Servers
from tests.support.parts.standby import PrimaryAndStandby
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, round int)",
    "INSERT INTO things SELECT n, 0 FROM generate_series(1, 1000) AS n",
)

COMMITS = """
DO $$ BEGIN FOR n IN 1..200 LOOP
  UPDATE things SET round = -n WHERE id = 1 + (random() * 999)::int; COMMIT;
END LOOP; END $$"""


@pytest.fixture
def pipeline(
    primary: Servers, pair: PrimaryAndStandby, proxy: Proxy, tmp_path: Path, quicker: None
) -> Iterator[Pipeline]:
    standby = up(pair.homes[1], {Service.POSTGRES})
    with pipelines(primary, tmp_path, remove_traces) as make:
        made = make(*SCHEMA, tables=("public.things",), lake_only=True)
        there = f"  standby_host: 127.0.0.1\n  standby_port: {standby.postgres_port}\n"
        made.configure(f"  port: {proxy.port}\n", f"  port: {proxy.port}\n{there}")
        wait_for_database(standby, made.settings.source.dbname)
        yield made


def wait_for_database(standby: Endpoints, name: str) -> None:
    """Return when the standby has replayed that the database was made."""
    there = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"
    with psycopg.connect(standby.postgres_dsn(), autocommit=True) as session:
        until(lambda: session.execute(there, (name,)).fetchone() == (True,), f"the standby has {name}")


@pytest.mark.timeout(900)
def test_standby_is_decoded_and_takes_its_primarys_place(
    pipeline: Pipeline, pair: PrimaryAndStandby, proxy: Proxy, spark: SparkSession
) -> None:
    """The slot and the copy are the standby's; nothing is lost when it is promoted, and nobody has to do anything."""
    source = pipeline.settings.source
    with written_meanwhile(pipeline):
        bootstrap(pipeline, spark)
    with pair.connect(source.dbname) as session:
        assert read_state(session, source.slot) is None
    with started(pipeline, spark, "lake") as following:
        pipeline.run("UPDATE things SET round = 1 WHERE id % 3 = 0", "DELETE FROM things WHERE id % 7 = 0")
        until(lambda: has_round(pipeline, 1), "changes on the primary arrive by the standby", every=0.5)
        proxy.point_at(None)
        # no clean end: the last beats and commits of the primary are in the WAL of the standby alone
        port = pair.fail_over().postgres_port
        proxy.point_at(port)
        with pair.connect(source.dbname) as session:
            session.execute("UPDATE things SET round = 2 WHERE id % 5 = 0")
        until(lambda: has_round(pipeline, 2), "changes of the promoted server arrive", every=0.5)
        assert following.is_running, following.failure
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []


@contextmanager
def written_meanwhile(pipeline: Pipeline) -> Iterator[None]:
    """Commits come one after another while the copy begins, goes on and ends."""
    with (
        pipeline.servers.connect(pipeline.settings.source.dbname) as session,
        repeated(lambda: session.execute(COMMITS)),
    ):
        yield


def has_round(pipeline: Pipeline, number: int) -> bool:
    return any(row["round"] == number for row in read_rows(pipeline, "public.things"))


def test_what_keeps_a_standby_from_decoding_is_named(pipeline: Pipeline) -> None:
    """Each fault by its check; what a standby cannot keep for a slot is told as the loss that it is."""
    source = pipeline.settings.source
    until(lambda: find_standby_faults(pipeline) == {}, "the standby has the new database, and no fault is found")
    # a slot stays behind its snapshot
    for name in ("other", source.slot):
        with open_slot_snapshot(source, name):
            pass
    check_resting(pipeline)
    with open_connection(source.decoding) as standby:
        # nobody's query holds the replay up
        change(standby, "max_standby_streaming_delay", "0")
        change(standby, "hot_standby_feedback", "off")
        # told to the primary by the slot that is left next
        until(lambda: not holds_rows(pipeline), "the primary holds no rows any more")
        change(standby, "primary_slot_name", "")
        standby.execute("SELECT pg_wal_replay_pause()")
        until(lambda: {*find_standby_faults(pipeline)} == FAULTS, "three faults are found")
        pipeline.run(*["CREATE TABLE dropped ()", "DROP TABLE dropped"] * 5)
        with pytest.raises(PreconditionError, match="paused"):
            wait_for_replay(source.model_copy(update={"slot_timeout_seconds": 1}))
        standby.execute(find_standby_faults(pipeline)["standby.replays"].partition(": ")[2].encode())
        until(lambda: is_lost(pipeline), "the primary's vacuum takes what the slot needs")
        with pytest.raises(HistoryLostError, match="hot_standby_feedback = on"):
            check_wal_kept(read_slot(pipeline.connection, source))
    check_lost(pipeline)
    pipeline.configure(f"standby_port: {source.standby_port}", "standby_port: 1")
    assert {*find_standby_faults(pipeline)} == {"standby.answers"}


@pytest.mark.further
def test_a_server_that_is_promoted_beside_the_source_is_refused(pipeline: Pipeline, pair: PrimaryAndStandby) -> None:
    """It would decode what another primary has written."""
    until(lambda: find_standby_faults(pipeline) == {}, "the standby is one")
    pair.promote_beside()
    check_stranger(pipeline, "it was promoted")


def test_a_server_of_another_cluster_is_refused(pipeline: Pipeline, other: Endpoints) -> None:
    configured = pipeline.settings.source.standby_port
    pipeline.configure(f"standby_port: {configured}", f"standby_port: {other.postgres_port}")
    with psycopg.connect(other.postgres_dsn(), autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(pipeline.settings.source.dbname)))
    check_stranger(pipeline, "is of cluster")


@pytest.fixture
def other(pair: PrimaryAndStandby, tmp_path: Path) -> Iterator[Endpoints]:
    """A server that has the source's password, and nothing else of it."""
    home = Home(tmp_path / "other" / ".cdc")
    home.make()
    secret = f"{SUPERUSER}.password"
    shutil.copy(pair.homes[0].secrets / secret, home.secrets / secret)
    try:
        yield up(home, {Service.POSTGRES})
    finally:
        down(home, {Service.POSTGRES})
        wipe(home)


def check_stranger(pipeline: Pipeline, why: str) -> None:
    """The doctor names it, nothing is made there, and no slot of it is looked at."""
    opened = pipeline.opened()
    source = opened.settings.source
    assert {*find_standby_faults(pipeline)} == {"standby.follows"}
    with pytest.raises(PreconditionError, match=why), open_decoding(pipeline.connection, source):
        pytest.fail("a stranger was taken for the standby")
    with pytest.raises(PreconditionError, match=why):
        read_slot(pipeline.connection, source)


def check_resting(pipeline: Pipeline) -> None:
    """What is known of a slot that nobody reads, and of the one that keeps the most beside it."""
    found = look_at_source(pipeline.connection, pipeline.settings.source)
    assert found.slot is not None
    assert (found.slot.active, found.slot.retained_bytes > 0, found.other) == (False, True, "other")
    assert found.wal_rate is not None, "WAL is written on the primary, whoever reads it"


def check_lost(pipeline: Pipeline) -> None:
    """A lost slot keeps no WAL, though Postgres still shows where it began."""
    found = look_at_source(pipeline.connection, pipeline.settings.source)
    assert found.slot is not None
    assert found.slot.restart_lsn is not None
    assert (found.slot.retained_bytes, found.other) == (0, None)


FAULTS = {"standby.feedback", "standby.physical_slot", "standby.replays"}


def find_standby_faults(pipeline: Pipeline) -> dict[str, str]:
    """What the doctor finds about the standby, by check, and what helps."""
    found = Doctor(pipeline.opened()).examine(["standby"]).findings
    return {finding.check: finding.problem.remedy for finding in found}


def change(connection: "Connection[Any]", name: str, value: str) -> None:
    connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
    connection.execute("SELECT pg_reload_conf()")


def holds_rows(pipeline: Pipeline) -> bool:
    held = "SELECT bool_or(xmin IS NOT NULL OR catalog_xmin IS NOT NULL) FROM pg_replication_slots"
    return pipeline.connection.execute(held.encode()).fetchone() == (True,)


def is_lost(pipeline: Pipeline) -> bool:
    pipeline.run("VACUUM pg_class", "VACUUM pg_attribute", "VACUUM pg_type")
    try:
        found = read_slot(pipeline.connection, pipeline.settings.source)
    except UnreachableError:
        # the look itself was ended for the replay
        return False
    return found is not None and found.wal_status == "lost"
