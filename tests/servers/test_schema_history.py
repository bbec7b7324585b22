"""The schema history in the source: whoever alters a table writes it, in the same transaction."""

from typing import Any

import pytest
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source import publication, registration, schema_history
from cdc.connect.source.registration import Registration
from cdc.connect.source.relation import parse_shape
from cdc.core.table import TableName
from tests.support.parts.pipelines import MakePipeline

MADE = ("CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))", "CREATE TABLE others (id int PRIMARY KEY)")


@pytest.fixture
def source(make_pipeline: MakePipeline) -> "tuple[Connection[Any], SourceSettings]":
    pipeline = make_pipeline(*MADE, tables=("public.things",))
    src, connection = pipeline.settings.source, pipeline.connection
    registration.prepare_schema(connection, src)
    registration.register(connection, src, Registration("p", src.slot, src.publication, "p"))
    publication.publish(connection, src, [TableName("public", "things")])
    assert schema_history.install_triggers(connection, src) is None
    assert schema_history.has_triggers(connection, src)
    return connection, src


def read_history(connection: "Connection[Any]") -> dict[str, tuple[list[str], int]]:
    """The columns that the history has of every table, and which transaction rewrote it."""
    rows = connection.execute("SELECT \"table\", shape, rewritten_by FROM cdc.shapes WHERE schema <> 'cdc'").fetchall()
    return {name: ([column.name for column in parse_shape(text).columns], rewritten) for name, text, rewritten in rows}


def test_ddl_writes_the_schema_history(source: "tuple[Connection[Any], SourceSettings]") -> None:
    connection, src = source
    assert read_history(connection) == {"things": (["id", "total"], 0)}
    role = sql.Identifier(f"plain_{src.dbname}")
    connection.execute(sql.SQL("CREATE ROLE {}").format(role))
    try:
        connection.execute(sql.SQL("ALTER TABLE things OWNER TO {}").format(role))
        connection.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(role))
        connection.execute(sql.SQL("SET ROLE {}").format(role))
        # it may not even see the toolkit's schema
        connection.execute("ALTER TABLE things ADD COLUMN note text")
        connection.execute("RESET ROLE")
        assert read_history(connection) == {"things": (["id", "total", "note"], 0)}
    finally:
        connection.execute("RESET ROLE")
        connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


def test_rolled_back_ddl_is_missing_and_repeated_ddl_is_kept(
    source: "tuple[Connection[Any], SourceSettings]",
) -> None:
    connection, _ = source
    with connection.transaction(force_rollback=True):
        connection.execute("ALTER TABLE things DROP COLUMN total")
        assert read_history(connection) == {"things": (["id"], 0)}
    assert read_history(connection) == {"things": (["id", "total"], 0)}
    with connection.transaction():
        row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        connection.execute("ALTER TABLE things ALTER total TYPE numeric(9, 1)")
        connection.execute("ALTER TABLE things ALTER total TYPE numeric(10, 2)")
    assert row is not None
    assert read_history(connection) == {"things": (["id", "total"], row[0] % 2**32)}


def test_history_names_tables_as_renamed_and_dropped(source: "tuple[Connection[Any], SourceSettings]") -> None:
    connection, _ = source
    connection.execute("CREATE TEMP TABLE passing (id int)")
    connection.execute("CREATE VIEW seen AS SELECT * FROM others")
    connection.execute("CREATE INDEX ON others (id)")
    assert set(read_history(connection)) == {"things"}
    connection.execute("ALTER TABLE things RENAME TO renamed")
    assert set(read_history(connection)) == {"renamed"}
    connection.execute("DROP TABLE renamed")
    assert read_history(connection) == {}


def test_failing_history_does_not_fail_ddl(source: "tuple[Connection[Any], SourceSettings]") -> None:
    connection, src = source
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    connection.execute("ALTER TABLE cdc.shapes RENAME shape TO form")
    connection.execute("ALTER TABLE things ADD COLUMN note text")
    assert any(line.startswith("cdc: a change of a table's schema was not noted") for line in said)
    connection.execute("ALTER TABLE cdc.shapes RENAME form TO shape")
    # switched off by somebody: it is not relied on any more, until it is put in place again
    connection.execute("ALTER EVENT TRIGGER cdc_note_shapes DISABLE")
    assert not schema_history.has_triggers(connection, src)
    assert schema_history.install_triggers(connection, src) is None
    assert schema_history.has_triggers(connection, src)
    assert read_history(connection) == {"things": (["id", "total", "note"], 0)}


ALIKE = "s" * 45
"""The first characters of two schemas: more than the name of an event trigger has room for."""


def read_triggers(connection: "Connection[Any]") -> dict[str, str]:
    """The event triggers of the database, with the schema of the function that each calls."""
    rows = connection.execute(
        "SELECT evtname, n.nspname FROM pg_event_trigger t JOIN pg_proc p ON p.oid = t.evtfoid"
        " JOIN pg_namespace n ON n.oid = p.pronamespace"
    ).fetchall()
    return dict(rows)


def test_pipelines_with_long_schemas_that_begin_alike_have_their_own_triggers(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(*MADE, tables=("public.things",))
    connection, settings = pipeline.connection, pipeline.settings.source
    both = [settings.model_copy(update={"heartbeat_schema": f"{ALIKE}{number}"}) for number in range(2)]
    for src in both:
        registration.prepare_schema(connection, src)
        registration.register(connection, src, Registration("p", src.slot, src.publication, "p"))
        publication.publish(connection, src, [TableName("public", "things")])
    for src in reversed(both):
        assert schema_history.install_triggers(connection, src) is None
    assert all(schema_history.has_triggers(connection, src) for src in both)
    assert sorted(read_triggers(connection).values()) == sorted(src.heartbeat_schema for src in both for _ in range(2))
    assert not any(name.startswith(ALIKE[:40]) for name in read_triggers(connection))
    connection.execute("ALTER TABLE things ADD COLUMN note text")
    for src in both:
        found = connection.execute(
            sql.SQL("SELECT shape FROM {}").format(sql.Identifier(src.heartbeat_schema, "shapes"))
        )
        assert [[column.name for column in parse_shape(text).columns] for (text,) in found] == [["id", "total", "note"]]


def test_usual_schemas_keep_the_names_of_their_triggers(source: "tuple[Connection[Any], SourceSettings]") -> None:
    connection, _ = source
    assert read_triggers(connection) == {"cdc_note_shapes": "cdc", "cdc_note_rewrite": "cdc"}
