"""A source restored from a backup, and a log that loses its end, on servers of the test's own."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.config.init import TemplateValues, template
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import halt
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.errors import HistoryLostError
from cdc.local.endpoints import Service
from cdc.local.services import down, up, wipe
from cdc.local.state_dir import Home
from cdc.log.names import change_topic, transaction_topic
from cdc.run.pipeline import delta_follower
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, recapture_all, verify
from tests.support.pipelines import Pipeline
from tests.support.servers_fixture import Servers
from tests.support.waiting import until

PARTS = {Service.POSTGRES, Service.KAFKA, Service.CONNECT}
SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "INSERT INTO things SELECT n, n FROM generate_series(1, 20) AS n",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Where the parts of this module run."""
    found = Home(tmp_path_factory.mktemp("restored") / ".cdc")
    yield found
    down(found)
    wipe(found)


@pytest.fixture(scope="module")
def made(home: Home, spark: SparkSession) -> Pipeline:
    """A pipeline on parts of its own, followed by a lake; each test ends with it recaptured."""
    found = up(home, PARTS)
    password = found.postgres_password.read()
    values = TemplateValues(
        host=found.postgres_host,
        port=found.postgres_port,
        dbname="postgres",
        user=found.postgres_user,
        password="${env:CDC_TEST_PASSWORD}",
        bootstrap=found.kafka_bootstrap,
        connect_url=found.connect_reference,
        tables=("public.things",),
    )
    text = template(values)
    config = home.path.parent / "cdc.yaml"
    config.write_text(text[: text.index("  search:\n")])
    servers = Servers(values, password, lambda part: down(home, {part}), lambda part: up(home, {part}))
    pipeline = Pipeline(config, servers, servers.connect(), {"CDC_TEST_PASSWORD": password})
    pipeline.run(*SCHEMA)
    pipeline.connection.close()
    bootstrap(pipeline, spark)
    return pipeline


@pytest.fixture
def pipeline(made: Pipeline, quicker: None, spark: SparkSession) -> Iterator[Pipeline]:
    """The same with a session that no server took away, and some changes applied."""
    found = replace(made, connection=made.servers.connect())
    found.run("UPDATE things SET total = total + 1 WHERE id < 5")
    catch_up(found, spark)
    yield found
    found.connection.close()


def check_report_and_recapture(pipeline: Pipeline, spark: SparkSession, told: str) -> None:
    for verb in (catch_up, bootstrap):
        with pytest.raises(HistoryLostError, match=f"{told}.*`cdc recapture`"):
            verb(pipeline, spark)
    assert any("`cdc recapture`" in problem for problem in problems(pipeline))
    recapture_all(pipeline, spark)
    check_old_heartbeats_are_passed(pipeline)
    with session_on(pipeline) as session:
        session.execute("INSERT INTO things SELECT max(id) + 100, 3 FROM things")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def check_old_heartbeats_are_passed(pipeline: Pipeline) -> None:
    """A source that was put back gives out its transaction ids again: older heartbeats may have those of new ones."""
    settings = pipeline.settings
    topic = change_topic(settings.log.prefix, heartbeat_table(settings.source).name)
    position = delta_follower(settings).position()
    assert position is not None
    assert position.next_offsets[topic][0] > 0


def test_source_restored_from_backup_is_reported(pipeline: Pipeline, home: Home, spark: SparkSession) -> None:
    settings, data = pipeline.settings, home.folder("postgres") / "data"
    down(home, {Service.POSTGRES})
    subprocess.run(["cp", "-a", str(data), str(data.with_name("backup"))], check=True)
    up(home, {Service.POSTGRES})
    with session_on(pipeline) as session:
        session.execute("UPDATE things SET total = 0")
        session.execute("DELETE FROM things WHERE id = 9")
    catch_up(pipeline, spark)
    with ConnectClient(settings.connect.url) as client:
        halt(client, settings.connect.connector)
        down(home, {Service.POSTGRES})
        subprocess.run(["rm", "-r", str(data)], check=True)
        data.with_name("backup").rename(data)
        up(home, {Service.POSTGRES})
        with session_on(pipeline) as session:
            session.execute("CREATE TABLE wal AS SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) AS n")
            session.execute("INSERT INTO things VALUES (200, 2)")
        client.resume(settings.connect.connector)
    check_report_and_recapture(pipeline, spark, "the log lacks commits")


def test_log_that_lost_its_end_is_reported(pipeline: Pipeline, home: Home, spark: SparkSession) -> None:
    settings = pipeline.settings
    [log] = (home.folder("kafka") / "data").glob(f"{transaction_topic(settings.log.prefix)}-0/*.log")
    size = log.stat().st_size
    pipeline.run("DELETE FROM things WHERE id = 8")
    end = pipeline.connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert end is not None
    confirmed = f"SELECT confirmed_flush_lsn >= '{end[0]}' FROM pg_replication_slots"
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
    return pipeline.servers.connect()
