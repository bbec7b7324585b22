"""A lake goes on only from the source that it was copied from; with a Postgres of the tests' own."""

from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from cdc.connect.source.access import connection as source
from cdc.core.errors import HistoryLostError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.local.services import Endpoints, Home, Service, down, up, wipe
from cdc.run.pipeline import Pipeline
from cdc.run.tables.resume_check import check_timeline
from tests.support.waiting import until

TABLE = Table(TableName("public", "things"), (Column("id", Kind.INTEGER),), ("id",))


@pytest.fixture
def settings(home: Home, tmp_path: Path) -> PipelineSettings:
    """A pipeline on a Postgres that is started here, with an empty copy of one table as of now."""
    settings = write_configuration(up(home, {Service.POSTGRES}), tmp_path / "cdc.yaml")
    past = source.read_timeline(settings.source)
    lake = Pipeline(settings).lake_follower
    lake.prepare([TABLE])
    lake.load(TABLE, [], Bookmark(past.end, past.system_identifier, past.timeline))
    return settings


def write_configuration(found: Endpoints, file: Path) -> PipelineSettings:
    values = TemplateValues(
        host=found.postgres_host,
        port=found.postgres_port,
        dbname="postgres",
        user=found.postgres_user,
        tables=(str(TABLE.name),),
        lake=str(file.parent / "lake"),
    )
    file.write_text(template(values))
    return load(file, {"CDC_SOURCE_PASSWORD": found.postgres_password.read()})


def test_same_source_is_accepted(settings: PipelineSettings) -> None:
    check_timeline(Pipeline(settings))


def test_another_cluster_is_refused(settings: PipelineSettings, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    try:
        found = up(other, {Service.POSTGRES})
        where = {"port": found.postgres_port, "password": SecretStr(found.postgres_password.read())}
        moved = settings.model_copy(update={"source": settings.source.model_copy(update=where)})
        with pytest.raises(HistoryLostError, match=r"public\.things was copied from"):
            check_timeline(Pipeline(moved))
    finally:
        down(other)
        wipe(other)


def test_source_behind_its_lake_is_refused(settings: PipelineSettings) -> None:
    past = source.read_timeline(settings.source)
    ahead = Bookmark(Lsn(past.end + (1 << 40)), past.system_identifier, past.timeline)
    Pipeline(settings).lake_follower.load(TABLE, [], ahead)
    with pytest.raises(HistoryLostError, match=r"public\.things is at 100/.* was restored or failed over"):
        check_timeline(Pipeline(settings))


def test_promoted_source_keeps_its_history_before_the_switch(settings: PipelineSettings, home: Home) -> None:
    promote(settings, home)
    after = source.read_timeline(settings.source)
    assert after.timeline == 2
    check_timeline(Pipeline(settings))
    unseen = Bookmark(Lsn(after.timeline_ends[1] + 1), after.system_identifier, 1)
    Pipeline(settings).lake_follower.load(TABLE, [], unseen)
    with pytest.raises(HistoryLostError, match="of timeline 1, which is not in the past of the source"):
        check_timeline(Pipeline(settings))


def promote(settings: PipelineSettings, home: Home) -> None:
    """Let the cluster come up from an archive that has nothing more: it ends recovery on a new timeline."""
    with source.open_connection(settings.source) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
        connection.execute("ALTER SYSTEM SET restore_command = 'false'")
    assert row is not None
    down(home)
    signal = Path(row[0]) / "recovery.signal"
    signal.touch(mode=0o666)
    up(home, {Service.POSTGRES})
    with psycopg.connect(source.conninfo(settings.source), autocommit=True) as connection:
        # it answers questions before recovery has ended
        until(lambda: connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), "it is promoted")
