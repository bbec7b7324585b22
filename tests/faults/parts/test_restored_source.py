"""A source restored from a backup, and a log that loses its end."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import halt
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.errors import HistoryLostError
from cdc.local.endpoints import Service
from cdc.local.services import down, up
from cdc.local.state_dir import Home
from cdc.log.names import change_topic, transaction_topic
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, problems, recapture_all, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.servers_fixture import Servers
from tests.support.waiting import until

NAMES = ("things", "refused", "unlisted")
SCHEMA = tuple(
    statement
    for name in NAMES
    for statement in (
        f"CREATE TABLE {name} (id int PRIMARY KEY, total numeric(10, 2))",
        f"INSERT INTO {name} SELECT n, n FROM generate_series(1, 20) AS n",
    )
)
LATE = NAMES[1:]
"""Tables that join the new capture later than the others."""
LOST, REPEATED = 400, 60
"""Transactions in each of these: of the lost past, and later ones with ids of those."""


@pytest.fixture(scope="module")
def servers(local_servers: Servers) -> Servers:
    """Parts whose files can be damaged."""
    return local_servers


@pytest.fixture(scope="module")
def home(servers: Servers) -> Home:
    assert servers.home
    return servers.home


@pytest.fixture(scope="module")
def made(make_shared_pipeline: MakePipeline, spark: SparkSession) -> Pipeline:
    """A pipeline on the parts of this room, followed by a lake; each test ends with it recaptured."""
    pipeline = make_shared_pipeline(*SCHEMA, tables=tuple(f"public.{name}" for name in NAMES), lake_only=True)
    bootstrap(pipeline, spark)
    return pipeline


@pytest.fixture
def pipeline(made: Pipeline, quicker: None, spark: SparkSession) -> Iterator[Pipeline]:
    """The same with a session that no server took away, and some changes applied."""
    found = replace(made, connection=session_on(made))
    found.run("UPDATE things SET total = total + 1 WHERE id < 5")
    catch_up(found, spark)
    yield found
    found.connection.close()


def check_report_and_recapture(pipeline: Pipeline, spark: SparkSession, told: str, refused: str = "") -> None:
    for verb in (catch_up, bootstrap):
        with pytest.raises(HistoryLostError, match=f"{told}.*`cdc recapture`"):
            verb(pipeline, spark)
    assert any("`cdc recapture`" in problem for problem in problems(pipeline))
    recapture_all(pipeline, spark)
    check_old_heartbeats_are_passed(pipeline)
    with session_on(pipeline) as session:
        session.execute("INSERT INTO things SELECT max(id) + 100, 3 FROM things")
    if refused:
        catch_up_but_for(pipeline, spark, refused)
    else:
        catch_up(pipeline, spark)
        assert verify(pipeline, spark).is_equal


def check_old_heartbeats_are_passed(pipeline: Pipeline) -> None:
    """A source that was put back gives out its transaction ids again: older heartbeats may have those of new ones."""
    settings = pipeline.settings
    topic = change_topic(settings.log.prefix, heartbeat_table(settings.source).name)
    position = pipeline.opened().lake_follower.position()
    assert position is not None
    assert position.next_offsets[topic][0] > 0


def test_source_restored_from_backup_is_reported(pipeline: Pipeline, home: Home, spark: SparkSession) -> None:
    """Two tables join the new capture later: they get nothing of the lost past, whose transactions have their ids."""
    back_up(home)
    with session_on(pipeline) as session:
        session.execute("UPDATE things SET total = 0")
        session.execute("DELETE FROM things WHERE id = 9")
        first, last = write_late_tables(session, LOST)
    catch_up(pipeline, spark)
    restore(pipeline, home)
    pipeline.configure("public.unlisted", "public.other")
    check_report_and_recapture(pipeline, spark, "the log lacks commits", refused="public.refused")
    pipeline.configure("public.other", "public.unlisted")
    with session_on(pipeline) as session:
        session.execute("DELETE FROM refused WHERE id = 100")
    bootstrap(pipeline, spark)
    catch_up(pipeline, spark)
    with session_on(pipeline) as session:
        begin, end = write_late_tables(session, REPEATED)
    assert first < begin < end < last, "the lost past has these ids, too"
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def back_up(home: Home) -> None:
    data = home.folder("postgres") / "data"
    down(home, {Service.POSTGRES})
    subprocess.run(["cp", "-a", str(data), str(data.with_name("backup"))], check=True)
    up(home, {Service.POSTGRES})


def restore(pipeline: Pipeline, home: Home) -> None:
    """Put the source back to its backup, with rows of its own beyond it, one of which no copy can hold."""
    settings, data = pipeline.settings, home.folder("postgres") / "data"
    with ConnectClient(settings.connect.url) as client:
        halt(client, settings.connect.connector)
        down(home, {Service.POSTGRES})
        subprocess.run(["rm", "-r", str(data)], check=True)
        data.with_name("backup").rename(data)
        up(home, {Service.POSTGRES})
        with session_on(pipeline) as session:
            session.execute("CREATE TABLE wal AS SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) AS n")
            session.execute("CREATE TABLE other (id int PRIMARY KEY)")
            session.execute("INSERT INTO things VALUES (200, 2)")
            session.execute("INSERT INTO refused VALUES (100, 'NaN')")
        client.resume(settings.connect.connector)


def write_late_tables(session: "psycopg.Connection[tuple[object, ...]]", count: int) -> tuple[int, int]:
    """So many transactions, each of both tables; the first and the last one's id."""
    ids = []
    for number in range(count):
        with session.transaction():
            for name in LATE:
                statement = f"UPDATE {name} SET total = {count + number} WHERE id = {1 + number % 20}"
                session.execute(statement.encode())
            found = session.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert found is not None
        ids.append(int(str(found[0])))
    return ids[0], ids[-1]


def test_log_that_lost_its_end_is_reported(pipeline: Pipeline, home: Home, spark: SparkSession) -> None:
    settings = pipeline.settings
    [log] = (home.folder("kafka") / "data").glob(f"{transaction_topic(settings.log.prefix)}-0/*.log")
    size = log.stat().st_size
    pipeline.run("DELETE FROM things WHERE id = 8")
    end = pipeline.connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert end is not None
    slots = "pg_replication_slots WHERE database = current_database()"
    confirmed = f"SELECT confirmed_flush_lsn >= '{end[0]}' FROM {slots}"
    until(lambda: pipeline.connection.execute(confirmed.encode()).fetchone() == (True,), "the log has it")
    down(home, {Service.CONNECT})
    down(home, {Service.KAFKA})
    with log.open("r+b") as file:
        file.truncate(size)
    # a broker that was killed reads its segments again, and makes what lies beside them anew
    for beside in (*log.parent.glob("*.index"), *log.parent.glob("*.timeindex"), *log.parent.glob("*.snapshot")):
        beside.unlink()
    (log.parents[1] / ".kafka_cleanshutdown").unlink(missing_ok=True)
    up(home, {Service.KAFKA, Service.CONNECT})
    check_report_and_recapture(pipeline, spark, "no commit of the log is|the log lacks commits")


def session_on(pipeline: Pipeline) -> "psycopg.Connection[tuple[object, ...]]":
    """A session of its own: the pipeline's went with the server."""
    return pipeline.servers.connect(pipeline.settings.source.dbname)
