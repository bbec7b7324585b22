"""pg_upgrade makes another cluster of the source, with its slot: the capture goes on without a new copy."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.connect.source.access.connection import open_connection
from cdc.connect.source.heartbeat import HEARTBEAT
from cdc.connect.source.registration import HISTORY
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.run.control import capture
from cdc.run.control.question import ControlVerb
from cdc.run.copy.probe import wait_until_captured
from cdc.run.health.upgrade import find_new_cluster
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, verify
from tests.support.parts.pipelines import Pipeline, pipelines
from tests.support.parts.removal import remove_traces
from tests.support.parts.servers_fixture import Servers
from tests.support.parts.upgraded import UpgradedServer
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, round int)",
    "INSERT INTO things SELECT n, 0 FROM generate_series(1, 1000) AS n",
)
PAGE = " ".join((Path(__file__).parents[3] / "docs" / "OPERATIONS.md").read_text(encoding="utf-8").split())
END_SESSION, COUNT_LEFT = re.findall(r"`(SELECT [^`]*'cdc_shop'[^`]*)`", PAGE.partition("### pg_upgrade ")[2])
"""The statements that the page says, of a pipeline `shop`."""


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


@pytest.mark.timeout(900)
@pytest.mark.further
def test_an_upgrade_that_has_lost_something_is_refused(
    pipeline: Pipeline, server: UpgradedServer, spark: SparkSession
) -> None:
    """Each by its reason, and mended before the next: a beat that the log lacks, tables of a dump, no slot."""
    bootstrap(pipeline, spark)
    rest(pipeline)
    source = pipeline.settings.source
    pipeline.connection.close()
    server.stop()
    server.upgrade()
    beat, shape = (sql.Identifier(source.heartbeat_schema, name) for name in (HEARTBEAT, HISTORY))
    with pipeline.servers.connect(source.dbname) as session:
        session.execute(sql.SQL("UPDATE {} SET beat = beat || ' '").format(beat))
        assert refuse(pipeline) == "the log lacks its last heartbeat"
        session.execute(sql.SQL("UPDATE {} SET beat = rtrim(beat)").format(beat))
        session.execute(sql.SQL("UPDATE {} SET relation = (relation::int8 + 1)::oid").format(shape))
        assert refuse(pipeline) == "its tables have other oids, so they were restored from a dump"
        session.execute(sql.SQL("UPDATE {} SET relation = (relation::int8 - 1)::oid").format(shape))
        assert find_new_cluster(pipeline.opened()) is not None
        session.execute("SELECT pg_drop_replication_slot(%s)", (source.slot,))
        assert refuse(pipeline) == "it has not kept the slot"
    with pytest.raises(HistoryLostError, match="it has not kept the slot"):
        bootstrap(pipeline, spark)


def refuse(pipeline: Pipeline) -> str:
    """Why the source is not taken for the one of before."""
    with pytest.raises(HistoryLostError) as refused:
        find_new_cluster(pipeline.opened())
    assert "cdc recapture" in refused.value.remedy
    return refused.value.what.rpartition("after pg_upgrade: ")[2]


def rest(pipeline: Pipeline) -> None:
    """Pause the capture once the slot has confirmed everything: pg_upgrade refuses it else."""
    opened = pipeline.opened()
    wait_until_captured(opened, pipeline.connection)

    def has_read_all() -> bool:
        capture.act(opened, ControlVerb.PAUSE, "a test")
        free_slot(pipeline)
        if ask(pipeline, COUNT_LEFT) == [(0,)]:
            return True
        capture.act(opened, ControlVerb.RESUME, "a test")
        return False

    until(has_read_all, "the slot has nothing left to be read", every=2.0)


def ask(pipeline: Pipeline, statement: str) -> list[tuple[object, ...]]:
    """Run a statement of the page, as the connector's role."""
    source = pipeline.settings.source
    assert source.publication == source.slot
    with open_connection(source) as session:
        return session.execute(statement.replace("cdc_shop", source.slot).encode()).fetchall()


def free_slot(pipeline: Pipeline) -> None:
    """A paused connector keeps its session on the source."""
    ask(pipeline, END_SESSION)
    idle = "SELECT count(*) FROM pg_replication_slots WHERE active"
    until(lambda: pipeline.connection.execute(idle.encode()).fetchone() == (0,), "nobody reads the slot")
