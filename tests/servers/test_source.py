"""What a bootstrap asks of the source before it makes anything, on a real one."""

from contextlib import ExitStack

import psycopg
import pytest

from cdc.core.errors import PreconditionError
from connect import readiness, registration
from connect.registration import Registration
from connect.source import connect
from tests.pipelines import MakePipeline
from tests.waiting import until


def test_a_first_copy_wants_two_senders(make_pipeline: MakePipeline) -> None:
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


def test_a_slot_that_another_pipeline_has_written_down(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    connection, source = pipeline.connection, pipeline.settings.source
    registration.prepare_schema(connection, source)
    first = registration.register(connection, source, Registration("one", "slot", "one", "one"))
    assert registration.register(connection, source, first) == first
    with pytest.raises(PreconditionError, match=r"slot slot is another pipeline's .* → choose another source\.slot"):
        registration.register(connection, source, Registration("two", "slot", "two", "two"))
    assert registration.registered(connection, source, "two") is None


def _free(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
    row = connection.execute(
        "SELECT current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)"
    ).fetchone()
    assert row is not None
    return int(str(row[0]))
