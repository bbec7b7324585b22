"""The registration of pipelines, in a table of the source.

A slot, publication or topic with our name but without a row here belongs to somebody else, and stays untouched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import HEARTBEAT
from cdc.connect.source.sql.queries import read_sql
from cdc.core.errors import PreconditionError
from cdc.postgres.values import read_value

PIPELINES = "pipeline"
HISTORY = "shapes"
_TABLES: Final = (PIPELINES, HEARTBEAT, HISTORY)
_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
# by oid: a name could not be looked up without the right to use the schema
_HAS_RIGHTS: Final = """
SELECT bool_and(has_schema_privilege(n.oid, 'USAGE')),
       bool_and(NOT EXISTS (SELECT FROM unnest(%s::text[]) AS wanted WHERE NOT has_table_privilege(c.oid, wanted)))
  FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
 WHERE n.nspname = %s AND c.relname = ANY(%s) HAVING count(*) > 0"""


_MAY_CREATE: Final = """
SELECT COALESCE((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = %s),
                has_database_privilege(current_database(), 'CREATE'))"""


@dataclass(frozen=True, slots=True)
class Registration:
    """One prepared pipeline: the names that it owns."""

    pipeline: str
    slot: str
    publication: str
    prefix: str


def prepare_schema(connection: Connection, source: SourceSettings) -> None:
    """Create the toolkit's schema and tables if they do not exist.

    `pipeline` (pipeline text key, slot text unique, publication text, prefix text): registrations.
    `heartbeat` (pipeline text key, beat text): see `heartbeat.py`.
    `shapes` (schema text key, table text key, relation bigint, shape text, rewritten_by bigint): see
    `schema_history.py`.

    Raises PreconditionError, with the statements for the owner, when the role may not make or use them.
    """
    try:
        # check first: even IF NOT EXISTS needs the right to create
        if not has_tables(connection, source):
            connection.execute(make_schema_sql(source))
    except psycopg.errors.InsufficientPrivilege:
        raise _schema_error(connection, source) from None
    check_rights(connection, source)


def make_schema_sql(source: SourceSettings) -> sql.Composed:
    """Make the statements that create the toolkit's schema and tables."""
    schema = sql.Identifier(source.heartbeat_schema)
    tables = {"pipelines": PIPELINES, "heartbeat": HEARTBEAT, "history": HISTORY}
    names = {key: sql.Identifier(source.heartbeat_schema, name) for key, name in tables.items()}
    return read_sql("own_tables").format(schema=schema, **names)


def check_may_prepare(connection: Connection, source: SourceSettings) -> None:
    """Raise PreconditionError like `prepare_schema`, by the role's rights, without making anything."""
    if has_tables(connection, source):
        check_rights(connection, source)
    elif not read_value(connection, _MAY_CREATE, source.heartbeat_schema):
        raise _schema_error(connection, source)


def _schema_error(connection: Connection, source: SourceSettings) -> PreconditionError:
    commands = " ".join(make_schema_sql(source).as_string(connection).split())
    return PreconditionError(
        f"role {source.user} may not make schema {source.heartbeat_schema} with its tables",
        f"run as owner of the database: {commands} {' '.join(list_grants(source))}",
    )


def check_rights(connection: Connection, source: SourceSettings) -> None:
    """Raise PreconditionError, with the statements for the owner, when the role may not use the toolkit's tables."""
    if missing := _find_missing_grants(connection, source):
        raise PreconditionError(
            f"role {source.user} may not use the tables of schema {source.heartbeat_schema}",
            f"run as their owner: {' '.join(missing)}",
        )


def list_grants(source: SourceSettings) -> list[str]:
    """The statements that give the role every right to the toolkit's tables."""
    schema, role = sql.Identifier(source.heartbeat_schema), sql.Identifier(source.user)
    tables = sql.SQL(", ").join(sql.Identifier(source.heartbeat_schema, name) for name in _TABLES)
    usage = sql.SQL("GRANT USAGE ON SCHEMA {} TO {};").format(schema, role)
    rights = sql.SQL("GRANT {} ON {} TO {};").format(sql.SQL(", ").join(map(sql.SQL, _RIGHTS)), tables, role)
    return [usage.as_string(), rights.as_string()]


def _find_missing_grants(connection: Connection, source: SourceSettings) -> list[str]:
    """Those of the statements that the role lacks. Tables that do not exist lack nothing."""
    found = connection.execute(_HAS_RIGHTS, (list(_RIGHTS), source.heartbeat_schema, list(_TABLES))).fetchone()
    return [grant for grant, has in zip(list_grants(source), found or (True, True), strict=True) if not has]


def has_tables(connection: Connection, source: SourceSettings, names: Sequence[str] = _TABLES) -> bool:
    """Are the toolkit's tables there?"""
    query = (
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = ANY(%s)"
    )
    return bool(read_value(connection, query, source.heartbeat_schema, list(names)) == len(names))


def read_registration(connection: Connection, source: SourceSettings, pipeline: str) -> Registration | None:
    """Read the registration of a pipeline; None if there is none. Raises PreconditionError like `check_rights`."""
    if not has_tables(connection, source, [PIPELINES]):
        return None
    check_rights(connection, source)
    row = connection.execute(
        sql.SQL("SELECT pipeline, slot, publication, prefix FROM {} WHERE pipeline = %s").format(
            sql.Identifier(source.heartbeat_schema, PIPELINES)
        ),
        (pipeline,),
    ).fetchone()
    return Registration(*row) if row else None


def register(connection: Connection, source: SourceSettings, wanted: Registration) -> Registration:
    """Register the pipeline, before anything of it is created; a second call returns the stored registration.

    Raises PreconditionError when it is registered with other names, which cannot change later, and when another
    pipeline has the slot.
    """
    connection.execute(make_register_sql(source, wanted))
    registered = read_registration(connection, source, wanted.pipeline)
    if registered is None:
        raise _describe_taken(wanted.slot)
    check_names(registered, wanted)
    return registered


def check_registrable(connection: Connection, source: SourceSettings, wanted: Registration) -> None:
    """Raise PreconditionError like `register`, without registering anything."""
    registered = read_registration(connection, source, wanted.pipeline)
    if registered is not None:
        check_names(registered, wanted)
    elif _has_slot_owner(connection, source, wanted.slot):
        raise _describe_taken(wanted.slot)


def _has_slot_owner(connection: Connection, source: SourceSettings, slot: str) -> bool:
    if not has_tables(connection, source, [PIPELINES]):
        return False
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE slot = %s)")
    return bool(read_value(connection, query.format(sql.Identifier(source.heartbeat_schema, PIPELINES)), slot))


def _describe_taken(slot: str) -> PreconditionError:
    return PreconditionError(f"slot {slot} is another pipeline's in this database", "choose another source.slot")


def make_register_sql(source: SourceSettings, wanted: Registration) -> sql.Composed:
    """Make the statement that registers the pipeline, if it is not registered yet."""
    # of two concurrent bootstraps one writes the row, and both compare their names with it
    insert = "INSERT INTO {} (pipeline, slot, publication, prefix) VALUES ({}) ON CONFLICT DO NOTHING"
    values = (wanted.pipeline, wanted.slot, wanted.publication, wanted.prefix)
    table = sql.Identifier(source.heartbeat_schema, PIPELINES)
    return sql.SQL(insert).format(table, sql.SQL(", ").join(map(sql.Literal, values)))


def check_names(registered: Registration, wanted: Registration) -> None:
    """Raise PreconditionError when the registered names differ from the wanted ones: they cannot change later."""
    pairs: Sequence[tuple[str, str, str]] = (
        ("source.slot", registered.slot, wanted.slot),
        ("source.publication", registered.publication, wanted.publication),
        ("log.prefix", registered.prefix, wanted.prefix),
    )
    for setting, was, asked in pairs:
        if was != asked:
            raise PreconditionError(
                f"pipeline {registered.pipeline} was prepared with {setting} {was!r}, not {asked!r}",
                f"set it back to {was!r}, or choose another pipeline.name",
            )
