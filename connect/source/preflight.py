"""Preflight checks of the source: each error names the problem and the SQL that solves it."""

from collections.abc import Mapping
from typing import Final

from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.relation import Shape
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.postgres.values import read_value

SENDERS: Final = 2


def check_source(connection: Connection, source: SourceSettings) -> None:
    """Raise PreconditionError for the first problem that does not depend on tables: encoding, wal_level, role."""
    _encoding(connection)
    _wal_level(connection)
    _role(connection, source)


def find_unreadable(
    connection: Connection, source: SourceSettings, shapes: Mapping[TableName, Shape]
) -> dict[TableName, PreconditionError]:
    """Find the tables that the role cannot read, each with the reason."""
    refusals: dict[TableName, PreconditionError] = {}
    for table, shape in shapes.items():
        # the copy reads partitions one by one
        parts = (_read_refusal(connection, source, part) for part in (table, *(leaf.name for leaf in shape.leaves)))
        if refusal := next(filter(None, parts), None):
            refusals[table] = refusal
    return refusals


def check_free_slot(connection: Connection) -> None:
    """Raise PreconditionError when the cluster lacks the free slot or the WAL senders for a first copy."""
    row = connection.execute(
        "SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),"
        # a slot also needs a sender: for its creation, and for the connector that reads it
        " current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication)"
    ).fetchone()
    assert row is not None
    if row[1] >= row[0]:
        raise PreconditionError(f"all {row[0]} replication slots are taken", "raise max_replication_slots, or drop one")
    # two at once: the session that created the slot holds its snapshot, and the connector starts before the copy ends
    if row[3] + SENDERS > row[2]:
        raise PreconditionError(
            f"of {row[2]} WAL senders {row[3]} are taken, and a first copy needs {SENDERS}", "raise max_wal_senders"
        )


def _encoding(connection: Connection) -> None:
    if read_value(connection, "SELECT current_setting('server_encoding')") == "SQL_ASCII":
        raise PreconditionError(
            f"database {connection.info.dbname} has encoding SQL_ASCII: nothing says what its bytes above 127 mean",
            "dump it, and restore it into a database WITH ENCODING 'UTF8' TEMPLATE template0",
        )


def _wal_level(connection: Connection) -> None:
    level = read_value(connection, "SELECT current_setting('wal_level')")
    if level == "logical":
        return
    # since Postgres 19 the first logical slot raises effective_wal_level; Debezium only checks wal_level
    raised = read_value(connection, "SELECT current_setting('effective_wal_level', true)")
    note = f", which Debezium does not take, though effective_wal_level is {raised}" if raised == "logical" else ""
    raise PreconditionError(
        f"the source has wal_level={level}{note}", "ALTER SYSTEM SET wal_level = logical; then restart Postgres"
    )


def _role(connection: Connection, source: SourceSettings) -> None:
    may = read_value(connection, "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user")
    if not may:
        alter = sql.SQL("ALTER ROLE {} REPLICATION").format(sql.Identifier(source.user)).as_string(connection)
        raise PreconditionError(f"role {source.user} has no right to replicate", alter)


def _read_refusal(connection: Connection, source: SourceSettings, table: TableName) -> PreconditionError | None:
    name = sql.Identifier(table.schema, table.table)
    role = sql.Identifier(source.user)
    if not read_value(connection, "SELECT has_schema_privilege(%s, 'USAGE')", table.schema):
        grant = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(table.schema), role)
        return PreconditionError(f"role {source.user} may not use schema {table.schema}", grant.as_string(connection))
    if not read_value(connection, "SELECT has_table_privilege(%s, 'SELECT')", name.as_string(connection)):
        grant = sql.SQL("GRANT SELECT ON {} TO {}").format(name, role)
        return PreconditionError(f"role {source.user} may not read {table}", grant.as_string(connection))
    if read_value(connection, "SELECT row_security_active(%s)", name.as_string(connection)):
        return PreconditionError(
            f"row level security hides rows of {table} from role {source.user}", "use a role with BYPASSRLS"
        )
    return None
