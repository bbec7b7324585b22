"""The publication: the tables that the source sends. It is committed before a slot is created."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.published_parts import (
    WHOLE,
    Parts,
    find_parts,
    find_wrong_parts,
    format_part,
    read_sent_parts,
)
from cdc.connect.source.sql.queries import read_sql
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.postgres.locks import ALL_BUT_READERS, LOCK_PATIENCE, find_holders, locked_error
from cdc.postgres.values import read_value

OPERATIONS = "insert, update, delete, truncate"
NO_PARTS: Final[Parts] = {}


def read_publication(connection: Connection, publication: str) -> set[TableName] | None:
    """Read the tables of a publication; None if it does not exist."""
    exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)).fetchone()
    if not exists:
        return None
    return {TableName(*row) for row in connection.execute(read_sql("published_tables"), (publication,)).fetchall()}


def read_parts(connection: Connection, publication: str, wanted: Parts) -> Parts:
    """What is sent of each table of the publication that is, or should be, sent in part."""
    published = (read_publication(connection, publication) or set()) if wanted else set[TableName]()
    return {**dict.fromkeys(published & wanted.keys(), WHOLE), **read_sent_parts(connection, publication)}


def publish(
    connection: Connection, source: SourceSettings, tables: Sequence[TableName], anew: Collection[TableName] = ()
) -> list[TableName]:
    """Create the publication, or add the missing tables to it; returns the added tables.

    `anew`: of these, tables that are copied after this, and are published as the settings say now. Raises
    PreconditionError when the role may not do that (with the statement for the owner), or when the publication leaves
    operations out, or rows or columns otherwise than the settings say.
    """
    publication, parts = source.publication, find_parts(connection, source)
    # an existing one is added to, never replaced: its tables are being captured
    has = read_publication(connection, publication)
    if has is None:
        _run(connection, publication, make_create_sql(publication, tables, parts), tables)
    elif not publishes_via_root(connection, publication):
        # changes of partitions must have the partitioned table's name in the log
        _alter(connection, publication, sql.SQL("SET (publish_via_partition_root = true)"))
        has = read_publication(connection, publication)
    added = [table for table in tables if table not in (has or set())]
    if has is not None and added:
        _run(connection, publication, make_add_sql(publication, added, parts), added)
    _publish_anew(connection, publication, [table for table in anew if table in tables and table not in added], parts)
    check_whole(connection, source, parts)
    return added


def _publish_anew(connection: Connection, publication: str, tables: Sequence[TableName], parts: Parts) -> None:
    """Publish tables with the parts of the settings, where they differ."""
    if not tables:
        return
    sent = read_parts(connection, publication, parts)
    wrong = find_wrong_parts(connection, sent, parts)
    other = [
        table
        for table in tables
        if table in wrong or {*sent.get(table, WHOLE).columns} != {*parts.get(table, WHOLE).columns}
    ]
    if not other:
        return
    # nobody sees the publication without them
    with connection.transaction():
        withdraw(connection, publication, other)
        _run(connection, publication, make_add_sql(publication, other, parts), other)


def make_create_sql(publication: str, tables: Sequence[TableName], parts: Parts = NO_PARTS) -> sql.Composed:
    """Make the statement that creates the publication of these tables."""
    create = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = {}, publish_via_partition_root = true)")
    return create.format(sql.Identifier(publication), _to_table_list(tables, parts), sql.Literal(OPERATIONS))


def make_add_sql(publication: str, tables: Sequence[TableName], parts: Parts = NO_PARTS) -> sql.Composed:
    """Make the statement that adds these tables to the publication."""
    listed = _to_table_list(tables, parts)
    return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), listed)


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


def _to_table_list(tables: Sequence[TableName], parts: Parts = NO_PARTS) -> sql.Composed:
    # without ONLY, inheriting tables would be published, too
    names = [(table, sql.Identifier(table.schema, table.table)) for table in tables]
    return sql.SQL(", ").join(
        sql.SQL("ONLY {}{}").format(name, format_part(parts.get(table, WHOLE))) for table, name in names
    )


def check_whole(
    connection: Connection, source: SourceSettings, parts: Parts | None = None, anew: Collection[TableName] = ()
) -> None:
    """Raise PreconditionError when the publication, if it exists, leaves more out than the settings say, or less.

    The copy has what the settings say: another stream would diverge from it. `parts`, `anew`: as in `find_partial`.
    """
    publication = source.publication
    sends_all = _sends_all_operations(connection, publication)
    if sends_all is None:
        return
    name = sql.Identifier(publication)
    if not sends_all:
        alter = sql.SQL("ALTER PUBLICATION {} SET (publish = {}, publish_via_partition_root = true)").format(
            name, sql.Literal(OPERATIONS)
        )
        raise PreconditionError(f"publication {publication} leaves changes out", alter.as_string(connection))
    if wrong := find_partial(connection, source, anew, parts):
        raise PreconditionError(wrong.what, "; ".join(wrong.statements))


def list_cut(connection: Connection, source: SourceSettings) -> set[TableName]:
    """The published tables of which changes are left out now, as `check_whole` finds them: those are in no log."""
    if not _sends_all_operations(connection, source.publication):
        return read_publication(connection, source.publication) or set()
    parts = find_parts(connection, source)
    return {*find_wrong_parts(connection, read_parts(connection, source.publication, parts), parts)}


def _sends_all_operations(connection: Connection, publication: str) -> bool | None:
    """Does it send every operation, those of partitions by their root's name? None where there is no publication."""
    every = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot"
    row = connection.execute(f"{every} FROM pg_publication WHERE pubname = %s".encode(), (publication,)).fetchone()
    return None if row is None else bool(row[0])


@dataclass(frozen=True, slots=True)
class WrongParts:
    """What is wrong with the rows and columns that a publication sends, and the statements that mend it."""

    what: str
    statements: Sequence[str]


def find_partial(
    connection: Connection, source: SourceSettings, anew: Collection[TableName] = (), parts: Parts | None = None
) -> WrongParts | None:
    """Find tables of which the publication sends other rows or columns than the settings say; None if there are none.

    `anew`: tables that a bootstrap publishes anew. `parts`: what the settings say, where that was read already.
    """
    parts = find_parts(connection, source) if parts is None else parts
    sent = read_parts(connection, source.publication, parts)
    wrong = [table for table in find_wrong_parts(connection, sent, parts) if table not in anew]
    if not wrong:
        return None
    named = ", ".join(map(str, wrong))
    what = f"publication {source.publication} has row filters or column lists: {named}"
    if any(table in parts for table in wrong):
        what = (
            f"publication {source.publication} sends other rows or columns than source.where and source.mask: {named}"
        )
    return WrongParts(what, make_anew_sql(source.publication, wrong, parts))


def make_anew_sql(publication: str, tables: Sequence[TableName], parts: Parts) -> list[str]:
    """Make the statements that publish these tables anew, with the rows and columns of the settings."""
    name, listed = sql.Identifier(publication), _to_table_list(tables)
    drop = sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, listed)
    return [drop.as_string(), make_add_sql(publication, tables, parts).as_string()]
