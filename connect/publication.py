"""The publication: which tables the source sends, agreed on and committed before any slot is made."""

from collections.abc import Sequence

import psycopg
from psycopg import Connection, sql

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName

OPERATIONS = "insert, update, delete, truncate"


def published(connection: Connection, publication: str) -> set[TableName] | None:
    """The tables of the publication, or None when there is none of that name."""
    exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)).fetchone()
    if not exists:
        return None
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (publication,)
    ).fetchall()
    return {TableName(*row) for row in rows}


def publish(connection: Connection, publication: str, tables: Sequence[TableName]) -> list[TableName]:
    """Make the publication, or add to it what it does not have yet; returns the tables that were added.

    Raises PreconditionError when the role may not, with the statement for one who may, or when the publication leaves
    rows, columns or kinds of changes out.
    """
    # one there already is added to, never set anew: its tables are being captured
    has = published(connection, publication)
    added = [table for table in tables if table not in (has or set())]
    try:
        if has is None:
            connection.execute(_create(publication, tables))
        elif added:
            connection.execute(_add(publication, added))
    except psycopg.errors.InsufficientPrivilege:
        statement = _create(publication, tables) if has is None else _add(publication, added)
        raise PreconditionError(
            f"this role may not change publication {publication}", f"run as owner: {statement.as_string(connection)}"
        ) from None
    _check_whole(connection, publication)
    return added


def withdraw(connection: Connection, publication: str, tables: Sequence[TableName]) -> None:
    """Publish these tables no more, those of them that still are. Raises PreconditionError when the role may not."""
    listed = [table for table in tables if table in (published(connection, publication) or set())]
    if not listed:
        return
    drop = sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(sql.Identifier(publication), _listed(listed))
    try:
        connection.execute(drop)
    except psycopg.errors.InsufficientPrivilege:
        raise PreconditionError(
            f"this role may not change publication {publication}", f"run as owner: {drop.as_string(connection)}"
        ) from None


def _create(publication: str, tables: Sequence[TableName]) -> sql.Composed:
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = {})").format(
        sql.Identifier(publication), _listed(tables), sql.Literal(OPERATIONS)
    )


def _add(publication: str, tables: Sequence[TableName]) -> sql.Composed:
    return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), _listed(tables))


def _listed(tables: Sequence[TableName]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(table.schema, table.table) for table in tables)


def _check_whole(connection: Connection, publication: str) -> None:
    """The copy reads whole tables: a stream with fewer rows, columns or kinds of changes would drift from it."""
    row = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate,"
        " EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = p.oid AND (prqual IS NOT NULL OR prattrs IS NOT NULL))"
        " FROM pg_publication p WHERE pubname = %s",
        (publication,),
    ).fetchone()
    assert row is not None
    if not row[0]:
        alter = sql.SQL("ALTER PUBLICATION {} SET (publish = {})").format(
            sql.Identifier(publication), sql.Literal(OPERATIONS)
        )
        raise PreconditionError(f"publication {publication} leaves changes out", alter.as_string(connection))
    if row[1]:
        raise PreconditionError(
            f"publication {publication} has row filters or column lists", "publish whole tables for this pipeline"
        )
