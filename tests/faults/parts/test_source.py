"""Checks of a real source before a bootstrap makes anything."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from psycopg import sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source import catalog, heartbeat, publication, registration
from cdc.connect.source.access.connection import connect, conninfo, open_connection
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots import slot
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.table import TableName
from cdc.postgres.session import open_session
from cdc.run.doctor.check import registered_checks
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.runner import examine
from cdc.run.status.asking.row_counts import count_source_rows
from cdc.snapshots.shared_snapshot import files, hold_snapshot
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until


def test_first_copy_needs_two_wal_senders(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    connection, source = pipeline.connection, pipeline.settings.source
    checks = [check for check in registered_checks() if check.name == "postgres.free_senders"]
    assert examine(AskedParts(pipeline.opened()), checks).error is None
    with ExitStack() as held:
        senders = list["psycopg.Connection[object]"]()

        def is_refused() -> bool:
            # one of a test before may end meanwhile
            while _free(connection) > 1:
                senders.append(held.enter_context(connect(source, replication="database")))
            found = examine(AskedParts(pipeline.opened()), checks)
            return "a first copy needs 2 → raise max_wal_senders" in str(found.error)

        until(is_refused, "the senders that are left are too few, and that is told")
        senders.pop().close()
        until(lambda: _free(connection) >= 2, "a sender has ended")
        assert examine(AskedParts(pipeline.opened()), checks).error is None


def test_slot_registered_by_another_pipeline_is_refused(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    connection, source = pipeline.connection, pipeline.settings.source
    registration.prepare_schema(connection, source)
    first = registration.register(connection, source, Registration("one", "slot", "one", "one"))
    assert registration.register(connection, source, first) == first
    with pytest.raises(PreconditionError, match=r"slot slot is another pipeline's .* → choose another source\.slot"):
        registration.register(connection, source, Registration("two", "slot", "two", "two"))
    assert registration.read_registration(connection, source, "two") is None


def test_slot_creation_names_the_writers_it_waits_for(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    source = pipeline.settings.source.model_copy(update={"slot_timeout_seconds": 1})
    with writing(pipeline) as pid, pytest.raises(PreconditionError, match=rf"waited 1 s for open .*pid {pid}"):
        make_slot(source)
    make_slot(source)


def test_source_lost_during_slot_creation_is_reported(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    with ThreadPoolExecutor() as threads, writing(pipeline):
        waiting = threads.submit(make_slot, pipeline.settings.source)
        until(lambda: end_sender(pipeline.connection), "a sender waits for a slot")
        with pytest.raises(UnreachableError, match=r"the source went away: .*terminat"):
            waiting.result()


def test_sessions_survive_long_idle_times(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    pipeline.run(f"ALTER DATABASE {pipeline.settings.source.dbname} SET idle_session_timeout = 60000")
    with open_connection(pipeline.settings.source) as session:
        assert session.execute("SHOW idle_session_timeout").fetchone() == ("0",)


def test_of_several_hosts_the_one_that_answers_is_taken_by_both_drivers(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    known = pipeline.settings.source
    # nobody listens there
    source = known.model_copy(update={"host": f"127.0.0.77,{known.host}"})
    with open_connection(source) as session:
        assert session.execute("SHOW transaction_read_only").fetchone() == ("off",)
    assert asyncio.run(read_by_asyncpg(source)) == 1


async def read_by_asyncpg(source: SourceSettings) -> int:
    session = await open_session(conninfo(source), ("options",))
    try:
        channel = session._transport.get_extra_info("socket")
        # a silent COPY is not dropped by a firewall, nor waited for after it was
        assert channel.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        return int(await session.fetchval("SELECT 1"))
    finally:
        await session.close()


def test_rights_that_a_role_lacks_are_named_as_statements_that_give_them(make_pipeline: MakePipeline) -> None:
    """Each remedy is run, and the next try gets further."""
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    role = f"weak {pipeline.settings.pipeline.name}"
    source = pipeline.settings.source.model_copy(update={"user": role})
    name, password = sql.Identifier(role), sql.Literal(source.password.get_secret_value())
    pipeline.connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, password))
    try:
        run_remedy(pipeline, refusal(source))
        register(source)
        for right in ("USAGE ON SCHEMA cdc", "SELECT ON cdc.pipeline", "UPDATE, INSERT ON cdc.heartbeat"):
            pipeline.connection.execute(sql.SQL(f"REVOKE {right} FROM {{}}").format(name))
            run_remedy(pipeline, refusal(source))
            register(source)
    finally:
        pipeline.connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
        pipeline.connection.execute(sql.SQL("DROP ROLE {}").format(name))


def test_a_heartbeat_waits_for_a_lock_as_long_as_it_is_told(make_pipeline: MakePipeline) -> None:
    """And the session's other statements wait as they did."""
    source = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",)).settings.source
    register(source)
    with open_connection(source, autocommit=False) as other, open_connection(source) as connection:
        heartbeat.write_heartbeat(other, source, "one", "it is open")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            heartbeat.write_heartbeat(connection, source, "one", "it waits", "1ms")
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
        other.commit()
        heartbeat.write_heartbeat(connection, source, "one", "it waits", "30s")
    with open_connection(source) as connection:
        row = connection.execute(
            sql.SQL("SELECT beat FROM {}").format(sql.Identifier(source.heartbeat_schema, heartbeat.HEARTBEAT))
        ).fetchone()
    assert row is not None
    assert "it waits" in row[0]


def register(source: SourceSettings) -> None:
    with open_connection(source) as connection:
        registration.prepare_schema(connection, source)
        registration.register(connection, source, Registration("one", "slot", "one", "one"))
        heartbeat.write_heartbeat(connection, source, "one", "it may")


def refusal(source: SourceSettings) -> PreconditionError:
    with pytest.raises(PreconditionError, match="may not") as refused:
        register(source)
    return refused.value


def run_remedy(pipeline: Pipeline, error: PreconditionError) -> None:
    pipeline.run(error.remedy.partition(": ")[2])


def test_locked_table_is_told_with_its_holder_and_holds_up_nobody(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what asks, and by what waits for it: the count of rows, the publication, the snapshot of a copy."""
    parted = ("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id)", "CREATE TABLE p1 PARTITION OF p DEFAULT")
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", *parted, tables=("public.t",))
    source, names = pipeline.settings.source, [TableName("public", "t"), TableName("public", "p")]
    monkeypatch.setattr("cdc.connect.source.publication.LOCK_PATIENCE", "100ms")
    monkeypatch.setattr("cdc.snapshots.shared_snapshot.LOOK_SECONDS", 1)
    with (
        open_connection(source) as asking,
        open_connection(source, autocommit=False) as keeping,
        slot.open_slot_snapshot(source, "of_a_copy", temporary=True) as snapshot,
        locked(pipeline, "t, p1") as (pid, release),
    ):
        for name in names:
            with pytest.raises(
                UnreachableError, match=f"rows of {name} are not counted: it is locked by session {pid}"
            ):
                count_source_rows(asking, name, exact=True)
        assert not catalog.examine(asking, names).refusals
        before = files(asking, names)
        with pytest.raises(UnreachableError, match=f"cannot be changed: public.t: it is locked by session {pid} →"):
            publication.publish(asking, source.model_copy(update={"publication": "p"}), names[:1])
        told: list[str] = []

        def hear(found: UnreachableError) -> None:
            told.append(found.what)
            release()

        with hold_snapshot(keeping, snapshot.name, names, before, hear) as held:
            assert held.pages.keys() == {*names}
        assert told == [f"public.t cannot be read: it is locked by session {pid}"]
        assert [count_source_rows(asking, name, exact=True) for name in names] == [0, 0]


@contextmanager
def locked(pipeline: Pipeline, tables: str) -> Iterator[tuple[int, Callable[[], None]]]:
    """A session that has locked these tables, and what ends it."""
    with connect(pipeline.settings.source, autocommit=False) as connection:
        connection.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE".encode())
        yield connection.info.backend_pid, connection.rollback


def test_errors_of_the_server_are_ours_by_their_sqlstate(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    for statement, kind, remedy in (
        ("SELECT * FROM nowhere", PreconditionError, "start it again"),
        ("SELECT 1 / 0", PreconditionError, "see the source's log"),
        ("SET statement_timeout = 1; SELECT pg_sleep(9)", UnreachableError, "try again"),
        ("SET default_transaction_read_only = on; INSERT INTO t VALUES (1)", PreconditionError, "name the primary"),
        ("SET ROLE pg_monitor; SELECT * FROM t", PreconditionError, "GRANT the right"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", UnreachableError, "try again"),
    ):
        with pytest.raises(CdcError) as raised, open_connection(pipeline.settings.source) as session:
            run_each(session, statement)
        assert type(raised.value) is kind, raised.value
        assert raised.value.remedy.startswith(remedy)


def run_each(session: "psycopg.Connection[tuple[object, ...]]", statements: str) -> None:
    for each in statements.split("; "):
        session.execute(each.encode())


@contextmanager
def writing(pipeline: Pipeline) -> Iterator[int]:
    """A transaction that has written and stays open; its process id."""
    with connect(pipeline.settings.source) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        yield connection.info.backend_pid


def make_slot(source: SourceSettings) -> None:
    with slot.open_slot_snapshot(source, "waits", temporary=True):
        pass


def end_sender(connection: "psycopg.Connection[tuple[object, ...]]") -> bool:
    """End the sender that makes the slot, once it waits for others."""
    rows = connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE 'CREATE_REPLICATION_SLOT \"waits\"%' AND wait_event_type = 'Lock'"
    ).fetchall()
    return bool(rows)


def _free(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
    row = connection.execute(
        "SELECT current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)"
    ).fetchone()
    assert row is not None
    return int(str(row[0]))
