"""What the role may read, and the statements that give it what it lacks."""

from collections.abc import Mapping, Sequence

from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.relation import Shape
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.postgres.values import read_value


def find_unreadable(
    connection: Connection, source: SourceSettings, shapes: Mapping[TableName, Shape]
) -> dict[TableName, PreconditionError]:
    """Find the tables that the role cannot read, each with the reason."""
    refusals: dict[TableName, PreconditionError] = {}
    for table, shape in shapes.items():
        parts = (_read_refusal(connection, source, part) for part in list_parts(table, shape))
        if refusal := next(filter(None, parts), None):
            refusals[table] = refusal
    return refusals


def list_parts(table: TableName, shape: Shape) -> list[TableName]:
    """The table and its partitions: the copy reads these one by one."""
    return [table, *(leaf.name for leaf in shape.leaves)]


def find_missing_grants(connection: Connection, source: SourceSettings, tables: Sequence[TableName]) -> list[str]:
    """The statements that give the role every right that it lacks to read these tables."""
    statements = [
        *(_usage(source, table) for table in tables if not _may_use(connection, table)),
        *(_select(source, table) for table in tables if not _may_select(connection, table)),
    ]
    return [*dict.fromkeys(statement.as_string(connection) for statement in statements)]


def _usage(source: SourceSettings, table: TableName) -> sql.Composed:
    role = sql.Identifier(source.user)
    return sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(table.schema), role)


def _select(source: SourceSettings, table: TableName) -> sql.Composed:
    name, role = sql.Identifier(table.schema, table.table), sql.Identifier(source.user)
    return sql.SQL("GRANT SELECT ON {} TO {}").format(name, role)


def _may_use(connection: Connection, table: TableName) -> bool:
    return bool(read_value(connection, "SELECT has_schema_privilege(%s, 'USAGE')", table.schema))


def _may_select(connection: Connection, table: TableName) -> bool:
    # by oid: a name could not be looked up without the right to use the schema
    query = (
        "SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s"
    )
    return bool(read_value(connection, query, table.schema, table.table))


def _read_refusal(connection: Connection, source: SourceSettings, table: TableName) -> PreconditionError | None:
    if not _may_use(connection, table):
        grant = _usage(source, table).as_string(connection)
        return PreconditionError(f"role {source.user} may not use schema {table.schema}", grant)
    if not _may_select(connection, table):
        return PreconditionError(
            f"role {source.user} may not read {table}", _select(source, table).as_string(connection)
        )
    name = sql.Identifier(table.schema, table.table).as_string(connection)
    if read_value(connection, "SELECT row_security_active(%s)", name):
        return PreconditionError(
            f"row level security hides rows of {table} from role {source.user}", "use a role with BYPASSRLS"
        )
    return None
