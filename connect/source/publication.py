"""The publication: the tables that the source sends. It is committed before a slot is created."""

from collections.abc import Sequence

import psycopg
from psycopg import Connection, sql

from cdc.connect.source.queries import read_sql
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.postgres.locks import ALL_BUT_READERS, LOCK_PATIENCE, find_holders, locked_error
from cdc.postgres.values import read_value

OPERATIONS = "insert, update, delete, truncate"
_PARTIAL = """
SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL) ORDER BY 1, 2"""


def read_publication(connection: Connection, publication: str) -> set[TableName] | None:
    """Read the tables of a publication; None if it does not exist."""
    exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)).fetchone()
    if not exists:
        return None
    return {TableName(*row) for row in connection.execute(read_sql("published_tables"), (publication,)).fetchall()}


def publish(connection: Connection, publication: str, tables: Sequence[TableName]) -> list[TableName]:
    """Create the publication, or add the missing tables to it; returns the added tables.

    Raises PreconditionError when the role may not do that (with the statement for the owner), or when the publication
    leaves rows, columns or operations out.
    """
    # an existing one is added to, never replaced: its tables are being captured
    has = read_publication(connection, publication)
    if has is None:
        create = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = {}, publish_via_partition_root = true)")
        parts = sql.Identifier(publication), _to_table_list(tables), sql.Literal(OPERATIONS)
        _run(connection, publication, create.format(*parts), tables)
    elif not publishes_via_root(connection, publication):
        # changes of partitions must have the partitioned table's name in the log
        _alter(connection, publication, sql.SQL("SET (publish_via_partition_root = true)"))
        has = read_publication(connection, publication)
    added = [table for table in tables if table not in (has or set())]
    if has is not None and added:
        _alter(connection, publication, sql.SQL("ADD TABLE {}").format(_to_table_list(added)), added)
    check_whole(connection, publication)
    return added


def withdraw(connection: Connection, publication: str, tables: Sequence[TableName]) -> None:
    """Remove these tables from the publication, if they are in it. Raises PreconditionError when the role may not."""
    # Postgres refuses the whole statement for a table that is not in the publication
    listed = [table for table in tables if table in (read_publication(connection, publication) or set())]
    if not listed:
        return
    _alter(connection, publication, sql.SQL("DROP TABLE {}").format(_to_table_list(listed)), listed)


def _alter(connection: Connection, publication: str, how: sql.Composable, tables: Sequence[TableName] = ()) -> None:
    _run(connection, publication, sql.SQL("ALTER PUBLICATION {} {}").format(sql.Identifier(publication), how), tables)


def _run(connection: Connection, publication: str, statement: sql.Composed, tables: Sequence[TableName] = ()) -> None:
    try:
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        raise PreconditionError(
            f"this role may not change publication {publication}", f"run as owner: {statement.as_string(connection)}"
        ) from None
    except psycopg.errors.LockNotAvailable:
        what = f"publication {publication} cannot be changed: {', '.join(map(str, tables))}"
        raise locked_error(what, find_holders(connection, tables, ALL_BUT_READERS)) from None


def publishes_via_root(connection: Connection, publication: str) -> bool:
    """Have changes of partitions the partitioned table's name?"""
    return bool(read_value(connection, "SELECT pubviaroot FROM pg_publication WHERE pubname = %s", publication))


def _to_table_list(tables: Sequence[TableName]) -> sql.Composed:
    # without ONLY, inheriting tables would be published, too
    return sql.SQL(", ").join(sql.SQL("ONLY {}").format(sql.Identifier(t.schema, t.table)) for t in tables)


def check_whole(connection: Connection, publication: str) -> None:
    """Raise PreconditionError when the publication, if it exists, leaves rows, columns or operations out.

    The copy has whole tables: a partial stream would diverge from it.
    """
    row = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot FROM pg_publication"
        " WHERE pubname = %s",
        (publication,),
    ).fetchone()
    if row is None:
        return
    name = sql.Identifier(publication)
    if not row[0]:
        alter = sql.SQL("ALTER PUBLICATION {} SET (publish = {}, publish_via_partition_root = true)").format(
            name, sql.Literal(OPERATIONS)
        )
        raise PreconditionError(f"publication {publication} leaves changes out", alter.as_string(connection))
    if partial := [TableName(*row) for row in connection.execute(_PARTIAL, (publication,)).fetchall()]:
        again = sql.SQL("ALTER PUBLICATION {name} DROP TABLE {tables}; ALTER PUBLICATION {name} ADD TABLE {tables}")
        raise PreconditionError(
            f"publication {publication} has row filters or column lists: {', '.join(map(str, partial))}",
            again.format(name=name, tables=_to_table_list(partial)).as_string(connection),
        )
