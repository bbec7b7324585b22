"""Takes away what a pipeline has made in its source, so that the source is as it was."""

from collections.abc import Sequence

import psycopg
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.event_triggers import FILES_TABLE
from cdc.connect.source.heartbeat import HEARTBEAT
from cdc.connect.source.registration import HISTORY, PIPELINES, has_tables
from cdc.connect.source.schema_history import SHAPES_NOW, TRIGGERS, list_trigger_names
from cdc.core.errors import PreconditionError
from cdc.postgres.locks import LOCK_PATIENCE


def list_other_pipelines(connection: Connection, source: SourceSettings, pipeline: str) -> list[str]:
    """The other pipelines that are registered in this schema, which share triggers and tables with this one."""
    if not has_tables(connection, source, [PIPELINES]):
        return []
    query = sql.SQL("SELECT pipeline FROM {} WHERE pipeline <> %s ORDER BY 1")
    rows = connection.execute(query.format(sql.Identifier(source.heartbeat_schema, PIPELINES)), (pipeline,))
    return [row[0] for row in rows]


def list_triggers(connection: Connection, source: SourceSettings) -> list[str]:
    """Our event triggers that are there."""
    query = "SELECT evtname FROM pg_event_trigger WHERE evtname = ANY(%s) ORDER BY 1"
    return [row[0] for row in connection.execute(query, (list_trigger_names(source),))]


def has_schema(connection: Connection, source: SourceSettings) -> bool:
    query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
    return connection.execute(query, (source.heartbeat_schema,)).fetchone() is not None


class LackingRightError(PreconditionError):
    """Only who owns it, or a superuser, may remove it."""


def make_publication_drop(name: str) -> list[sql.Composed]:
    return [sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name))]


def make_trigger_drop(name: str) -> list[sql.Composed]:
    return [sql.SQL("DROP EVENT TRIGGER IF EXISTS {}").format(sql.Identifier(name))]


def make_forgetting(source: SourceSettings, pipeline: str) -> list[sql.Composed]:
    """Make the statements that delete the pipeline's rows of tables that others use."""
    rows = [sql.Identifier(source.heartbeat_schema, table) for table in (HEARTBEAT, PIPELINES)]
    delete = sql.SQL("DELETE FROM {} WHERE pipeline = {}")
    return [delete.format(table, sql.Literal(pipeline)) for table in rows]


def make_schema_drop(source: SourceSettings) -> list[sql.Composed]:
    """Make the statements that drop our functions and tables, and the schema, unless somebody else has something in
    it."""
    schema = source.heartbeat_schema
    functions = [sql.Identifier(schema, name) for name in (*TRIGGERS, SHAPES_NOW)]
    tables = [sql.Identifier(schema, name) for name in (FILES_TABLE, HISTORY, HEARTBEAT, PIPELINES)]
    return [
        *(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(name) for name in functions),
        *(sql.SQL("DROP TABLE IF EXISTS {}").format(name) for name in tables),
        sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(schema)),
    ]


def join_statements(statements: Sequence[sql.Composed]) -> str:
    return "; ".join(statement.as_string() for statement in statements)


def run_removal(connection: Connection, statements: Sequence[sql.Composed]) -> None:
    """Run these statements, all or none. Raises LackingRightError, with them, where the role may not, and
    PreconditionError for what is locked, or has somebody else's things in it, which stay."""
    text = join_statements(statements)
    try:
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            for statement in statements:
                connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise LackingRightError(f"this role may not: {error.diag.message_primary}", f"run as owner: {text}") from None
    except psycopg.errors.LockNotAvailable:
        raise PreconditionError("somebody has it locked", f"end that, then again: {text}") from None
    except psycopg.errors.DependentObjectsStillExist as error:
        raise PreconditionError(f"{error.diag.message_primary}", "remove what depends on it, then again") from None
