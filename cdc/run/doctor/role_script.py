"""The script of a role with the least rights, and of what is not its to make: for who administers the source."""

from collections.abc import Iterator, Sequence
from typing import Final

from psycopg import sql

from cdc.config.settings import PipelineSettings
from cdc.connect.source import publication, registration, schema_history
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.published_parts import Parts, PublishedPart
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots.standby import LET_NUDGE
from cdc.core.table import TableName
from cdc.run.doctor.fixes import JointStatement, quote
from cdc.run.doctor.providers import Provider

_PASSWORD: Final = "-- then give it the password of source.password, such as by \\password in psql"  # noqa: S105
# a role that is there already keeps what it has
_MAKE: Final = (
    "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {}) THEN"
    " CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE; END IF; END $$"
)


def make_role_script(
    settings: PipelineSettings, tables: Sequence[TableName], provider: Provider, user: str, *, triggers: bool
) -> Iterator[str]:
    """Write the script in lines. `triggers`: the administrator may make event triggers there.

    The role logs in, replicates, reads the tables that are named, and writes the toolkit's own ones. It owns nothing,
    so publication and triggers are made here, and whoever adds a table runs this again.
    """
    source = settings.source.model_copy(update={"user": user})
    asked = settings.model_copy(update={"source": source})
    yield f"-- The least that pipeline {settings.pipeline.name} needs, on {provider.name}; may be run again."
    yield "BEGIN;"
    for statement in _list_statements(asked, tables, provider, triggers=triggers):
        yield f"{statement};"
    yield "COMMIT;"
    yield _PASSWORD


def _list_statements(
    settings: PipelineSettings, tables: Sequence[TableName], provider: Provider, *, triggers: bool
) -> Iterator[str]:
    source = settings.source
    role, name = sql.Identifier(source.user), source.publication
    yield sql.SQL(_MAKE).format(sql.Literal(source.user), role).as_string()
    yield provider.allow_replication(source.user)
    yield quote("GRANT CONNECT ON DATABASE {} TO {}", source.dbname, source.user)
    if source.standby_host:
        yield quote(LET_NUDGE, source.user)
    for schema in dict.fromkeys(table.schema for table in tables):
        yield quote("GRANT USAGE ON SCHEMA {} TO {}", schema, source.user)
    for table in tables:
        yield quote("GRANT SELECT ON {} TO {}", (table.schema, table.table), source.user)
    yield from (statement.text for statement in make_own_schema(settings))
    yield register(settings).text
    yield from (statement.as_string() for statement in schema_history.make_function_sql(source))
    if triggers:
        yield from (statement.as_string() for statement in schema_history.make_trigger_sql(source))
    # in the schema all tables are the toolkit's, those that the functions above keep their notes in, too
    rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {} TO {}"
    yield quote(rights, source.heartbeat_schema, source.user)
    own = [heartbeat_table(source).name, schema_history.history_table(source).name]
    parts = {table: PublishedPart((), where) for table, where in source.choices.wheres.items()}
    create = publication.make_create_sql(name, [*tables, *own], parts).as_string()
    yield _unless_published(name, create)
    for table in (*tables, *own):
        yield _unless_covered(name, table, parts)


def make_own_schema(settings: PipelineSettings) -> list[JointStatement]:
    """The statements that make the toolkit's schema and tables, and let the role use them."""
    source = settings.source
    made = " ".join(registration.make_schema_sql(source).as_string().split()).rstrip(";")
    return [JointStatement(made), *(JointStatement(grant.rstrip(";")) for grant in registration.list_grants(source))]


def register(settings: PipelineSettings) -> JointStatement:
    """The statement that makes slot, publication and topics of these names this pipeline's."""
    source = settings.source
    wanted = Registration(settings.pipeline.name, source.slot, source.publication, settings.log.prefix)
    return JointStatement(registration.make_register_sql(source, wanted).as_string())


def _unless_published(name: str, create: str) -> str:
    template = "DO $cdc$ BEGIN IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = {}) THEN {}; END IF; END $cdc$"
    return sql.SQL(template).format(sql.Literal(name), sql.SQL(create)).as_string()


def _unless_covered(name: str, table: TableName, parts: Parts) -> str:
    template = (
        "DO $cdc$ BEGIN IF NOT EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid"
        " WHERE p.pubname = {} AND r.prrelid = {}::regclass) THEN {}; END IF; END $cdc$"
    )
    named = sql.Identifier(table.schema, table.table).as_string()
    add = publication.make_add_sql(name, [table], parts)
    return sql.SQL(template).format(sql.Literal(name), sql.Literal(named), add).as_string()
