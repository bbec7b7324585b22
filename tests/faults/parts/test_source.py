"""Checks of a real source before a bootstrap makes anything."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from cdc.connect.settings import SourceSettings
from cdc.connect.source import preflight as readiness
from cdc.connect.source import registration, slot
from cdc.connect.source.connection import connect, open_connection
from cdc.connect.source.registration import Registration
from cdc.core.errors import PreconditionError, UnreachableError
from tests.support.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until


def test_first_copy_needs_two_wal_senders(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    connection, source = pipeline.connection, pipeline.settings.source
    readiness.check_free_slot(connection)
    with ExitStack() as held:
        senders = [held.enter_context(connect(source, replication="database")) for _ in range(_free(connection) - 1)]
        with pytest.raises(PreconditionError, match=r"a first copy needs 2 → raise max_wal_senders"):
            readiness.check_free_slot(connection)
        senders.pop().close()
        until(lambda: _free(connection) == 2, "a sender has ended")
        readiness.check_free_slot(connection)


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
