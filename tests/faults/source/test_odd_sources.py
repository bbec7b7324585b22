"""Roles, databases and servers with unsuitable settings: our sessions override them, or report them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.config.init import TemplateValues, template
from cdc.connect.source.access import connection as source
from cdc.connect.source.access import replication, sessions
from cdc.local.services import Home, Service, down, up
from cdc.snapshots import copy_reader as rows
from tests.support.cdc_inprocess import bootstrap, catch_up, following, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline, expect_no_kafka
from tests.support.waiting import until

TABLE = ("CREATE TABLE things (id int PRIMARY KEY, name text)", "INSERT INTO things VALUES (1, 'é')")
HOSTILE = {
    **{bound.name: "1500ms" for bound in sessions.BOUNDS},
    "wal_sender_timeout": "1500ms",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "client_encoding": "LATIN1",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
    "TimeZone": "Asia/Kolkata",
}
ODD_ROLE, ODD_PASSWORD = """o neil "x" %+/?&\\ é""", "a%2Fb&c=\\d'e\"f é?"


@contextmanager
def odd_role(pipeline: Pipeline, settings: dict[str, str], password: str = ODD_PASSWORD) -> Iterator[None]:
    """The pipeline's role is one of an odd name, a superuser for whom all these settings hold."""
    role = f"{pipeline.settings.pipeline.name} {ODD_ROLE}"
    name = sql.Identifier(role)
    statements = [
        sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(name, sql.Literal(password)),
        *(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(key), sql.Literal(value))
            for key, value in settings.items()
        ),
    ]
    for statement in statements:
        pipeline.connection.execute(statement)
    before = pipeline.config.read_text(), pipeline.environ["CDC_TEST_PASSWORD"]
    pipeline.configure("user: postgres", f"user: '{role}'")
    lines = pipeline.config.read_text().splitlines(keepends=True)
    pipeline.config.write_text("".join(line for line in lines if "password_reference" not in line))
    pipeline.environ["CDC_TEST_PASSWORD"] = password
    try:
        yield
    finally:
        pipeline.config.write_text(before[0])
        pipeline.environ["CDC_TEST_PASSWORD"] = before[1]
        # what it owns goes with the database; no database is dropped while a role in use is asked for
        pipeline.connection.execute(sql.SQL("REASSIGN OWNED BY {} TO postgres").format(name))
        pipeline.connection.execute(sql.SQL("DROP ROLE {}").format(name))


RefuseBootstrap = Callable[[Pipeline], str]


@pytest.fixture
def refusal_of_bootstrap(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RefuseBootstrap:
    """Gives the only line that `cdc bootstrap` ends with."""

    def bootstrap_refused(pipeline: Pipeline) -> str:
        pipeline.set_environ(monkeypatch)
        capsys.readouterr()
        assert main(["--config", str(pipeline.config), "bootstrap"]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return bootstrap_refused


def test_every_timeout_of_the_server_is_known(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(tables=("public.things",))
    found = pipeline.connection.execute(
        "SELECT name FROM pg_settings WHERE name LIKE '%timeout%' AND context IN"
        " ('user', 'superuser', 'backend', 'superuser-backend')"
    ).fetchall()
    known = {bound.name for bound in sessions.BOUNDS}
    assert {name for (name,) in found} - sessions.LEFT_ALONE.keys() == known


def test_sessions_ignore_settings_of_the_role(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(*TABLE, tables=("public.things",))
    expected = {
        **{bound.name: "0" for bound in sessions.BOUNDS},
        **sessions.WRITING,
        **sessions.TEXT,
        "DateStyle": "ISO, MDY",
    }
    with odd_role(pipeline, HOSTILE):
        src = pipeline.settings.source
        with source.open_connection(src) as plain, source.open_connection(src, autocommit=False) as keeping:
            for session in (plain, keeping):
                found = {name: session.execute(f"SHOW {name}".encode()).fetchone() for name in expected}
                assert found == {name: (value,) for name, value in expected.items()}
            keeping.rollback()
            keeping.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            exported = keeping.execute("SELECT pg_export_snapshot()").fetchone()
            assert exported is not None
            read = asyncio.run(
                read_settings_of_a_reader(source.conninfo(src, plain.info.server_version), exported[0], expected)
            )
        # somebody who alters a table is not waited for, and asyncpg has its own word for the encoding
        assert read == {**expected, "lock_timeout": rows.LOCK_WAIT, "client_encoding": "UTF8"} | {
            "transaction_isolation": "repeatable read"
        }
        sender = source.connect(src, replication="database")
        try:
            of_sender = {name: replication.run_command(sender.pgconn, f"SHOW {name}".encode()) for name in expected}
            assert {name: replication.text(value, 0) for name, value in of_sender.items()} == expected
        finally:
            sender.close()


async def read_settings_of_a_reader(conninfo: str, snapshot: str, names: dict[str, str]) -> dict[str, str]:
    async with rows._reading(conninfo, snapshot) as session:
        return {name: await session.fetchval(f"SHOW {name}") for name in (*names, "transaction_isolation")}


def test_role_with_settings_that_end_every_session(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    """The keeper's transaction lasts for as long as the connector takes to start, which is longer than any of these."""
    pipeline = make_pipeline(*TABLE, tables=("public.things",), lake_only=True)
    pipeline.configure("  dbname:", "  heartbeat_seconds: 2\n  dbname:")
    with odd_role(pipeline, HOSTILE):
        bootstrap(pipeline, spark)
        before = sessions_of_the_connector(pipeline)
        assert before
        with following(pipeline, spark):
            for turn in range(3):
                beat = read_heartbeat(pipeline)
                until(partial(has_beaten, pipeline, beat), "another heartbeat of the connector's own")
                pipeline.run(f"INSERT INTO things VALUES ({turn + 2}, 'ü')")
            assert verify(pipeline, spark).is_equal
        assert before <= sessions_of_the_connector(pipeline)


def has_beaten(pipeline: Pipeline, since: object) -> bool:
    return read_heartbeat(pipeline) != since


def read_heartbeat(pipeline: Pipeline) -> object:
    row = pipeline.connection.execute("SELECT beat FROM cdc.heartbeat").fetchone()
    return row and row[0]


def sessions_of_the_connector(pipeline: Pipeline) -> set[int]:
    found = pipeline.connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name IN ('Debezium General', 'Debezium Streaming')"
    ).fetchall()
    return {row[0] for row in found}


def test_database_in_latin1(
    make_pipeline: MakePipeline, spark: SparkSession, refusal_of_bootstrap: RefuseBootstrap
) -> None:
    latin1 = "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    pipeline = make_pipeline(
        'CREATE TABLE "Été" (id int PRIMARY KEY, "où" text, c char(3), j jsonb, a text[])',
        """INSERT INTO "Été" VALUES (1, 'é ÿ', 'ß', '{"ä": "ö"}', '{"ü,","«»"}')""",
        tables=("public.Été",),
        made_with=latin1,
        lake_only=True,
    )
    bootstrap(pipeline, spark)
    with following(pipeline, spark):
        pipeline.run("""INSERT INTO "Été" VALUES (2, 'Ñ', 'ç', '["£"]', '{¿}')""")
        pipeline.run("""UPDATE "Été" SET "où" = 'à' WHERE id = 1""", 'ALTER TABLE "Été" ADD "çà" text')
        pipeline.run("""INSERT INTO "Été" VALUES (3, 'þ', 'ð', '"÷"', '{}', 'Ý')""")
        assert verify(pipeline, spark).is_equal
    assert not bootstrap(pipeline, spark).has_changed
    pipeline.configure("public.Été", "public.表")
    assert refusal_of_bootstrap(pipeline).endswith(
        ' has no equivalent in encoding "LATIN1" → correct the name in source.tables or source.keys'
    )


def test_database_without_an_encoding(make_pipeline: MakePipeline, refusal_of_bootstrap: RefuseBootstrap) -> None:
    ascii = "ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    pipeline = make_pipeline(*TABLE, tables=("public.things",), made_with=ascii)
    name = pipeline.settings.source.dbname
    assert refusal_of_bootstrap(pipeline) == (
        f"error: database {name} has encoding SQL_ASCII: nothing says what its bytes above 127 mean"
        " → dump it, and restore it into a database WITH ENCODING 'UTF8' TEMPLATE template0"
    )


def test_database_with_an_odd_name(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    odd = """ a"b'c\\ é中 ${x} &a=b;c#d:e@f,g.h."""
    pipeline = make_pipeline(*TABLE, tables=("public.things",), dbname=odd, lake_only=True)
    bootstrap(pipeline, spark)
    pipeline.run("INSERT INTO things VALUES (2, 'x')")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_standby(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = up(home, {Service.POSTGRES})
    with psycopg.connect(found.postgres_dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE things (id int PRIMARY KEY)")
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    down(home)
    # nobody to follow, but read-only all the same
    (Path(row[0]) / "standby.signal").touch()
    found = up(home, {Service.POSTGRES})
    values = TemplateValues(port=found.postgres_port, dbname="postgres", user="postgres", tables=("public.things",))
    (tmp_path / "cdc.yaml").write_text(template(values))
    expect_no_kafka(monkeypatch)
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", found.postgres_password.read())
    told = (
        f"Postgres localhost:{found.postgres_port}/postgres is a standby: publications, heartbeats and the toolkit's"
        " tables are written on the primary only → name the primary in source.host and source.port; a standby to decode"
        " on in source.standby_host"
    )
    assert main(["--config", str(tmp_path / "cdc.yaml"), "bootstrap"]) == 3
    assert capsys.readouterr().err.splitlines() == [f"error: {told}"]
    assert main(["--config", str(tmp_path / "cdc.yaml"), "status"]) == 3
    said = capsys.readouterr()
    assert told in said.out + said.err
