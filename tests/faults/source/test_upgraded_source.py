"""pg_upgrade makes another cluster of the source, with its slot: the capture goes on without a new copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.run.control import capture
from cdc.run.control.question import ControlVerb
from cdc.run.copy.probe import wait_until_captured
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, verify
from tests.support.parts.pipelines import END_SENDERS, Pipeline, pipelines
from tests.support.parts.removal import remove_traces
from tests.support.parts.servers_fixture import Servers
from tests.support.parts.upgraded import UpgradedServer
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, round int)",
    "INSERT INTO things SELECT n, 0 FROM generate_series(1, 1000) AS n",
)
PENDING = (
    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
    " 'publication_names', %s)"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UpgradedServer]:
    made = UpgradedServer(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def pipeline(servers: Servers, server: UpgradedServer, tmp_path: Path, quicker: None) -> Iterator[Pipeline]:
    port, password = server.endpoints.postgres_port, server.endpoints.postgres_password.read()
    with pipelines(servers.with_source(port, password), tmp_path, remove_traces) as make:
        yield make(*SCHEMA, tables=("public.things",), lake_only=True)


@pytest.mark.timeout(900)
@pytest.mark.further
def test_upgraded_source_is_followed_on(pipeline: Pipeline, server: UpgradedServer, spark: SparkSession) -> None:
    """What was captured and not applied is applied, what the new server commits comes after it, and no table is copied
    again."""
    bootstrap(pipeline, spark)
    before = pipeline.opened().lake_follower.bookmarks()
    pipeline.run("UPDATE things SET round = 1 WHERE id % 2 = 0")
    rest(pipeline)
    pipeline.connection.close()
    server.stop()
    server.upgrade()
    with pytest.raises(PreconditionError, match="`cdc bootstrap` goes on"):
        catch_up(pipeline, spark)
    assert any("was upgraded" in problem for problem in problems(pipeline))
    bootstrap(pipeline, spark)
    with pipeline.servers.connect(pipeline.settings.source.dbname) as session:
        session.execute("UPDATE things SET round = 2 WHERE id % 3 = 0")
        session.execute("DELETE FROM things WHERE id % 5 = 0")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []
    assert pipeline.opened().lake_follower.bookmarks() == before


def rest(pipeline: Pipeline) -> None:
    """Pause the capture once the slot has confirmed everything: pg_upgrade refuses it else."""
    opened, source = pipeline.opened(), pipeline.settings.source
    wait_until_captured(opened, pipeline.connection)

    def has_read_all() -> bool:
        capture.act(opened, ControlVerb.PAUSE, "a test")
        free_slot(pipeline)
        row = pipeline.connection.execute(PENDING, (source.slot, f'"{source.publication}"')).fetchone()
        if row == (0,):
            return True
        capture.act(opened, ControlVerb.RESUME, "a test")
        return False

    until(has_read_all, "the slot has nothing left to be read", every=2.0)


def free_slot(pipeline: Pipeline) -> None:
    """A paused connector keeps its session on the source."""
    pipeline.run(END_SENDERS)
    idle = "SELECT count(*) FROM pg_replication_slots WHERE active"
    until(lambda: pipeline.connection.execute(idle.encode()).fetchone() == (0,), "nobody reads the slot")
