"""Holds a snapshot for parallel readers: one session with the snapshot and a lock on every table.

Without the locks, a `VACUUM FULL` or a rewriting `ALTER TABLE` after the snapshot would make a reader see no rows at
all (Postgres manual, "Caveats" of MVCC).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.core.errors import TableRewrittenError, UnreachableError
from cdc.core.table import TableName
from cdc.postgres.locks import find_holders, locked_error
from cdc.postgres.values import read_value
from cdc.snapshots.ranges import Pages

PAGE_BYTES = 8192
LOOK_SECONDS: Final = 5
"""How long to wait for a table's lock before it is told who has it."""
OnLock = Callable[[UnreachableError], None]
"""Hears that a table is locked, and by whom."""

Files = Mapping[TableName, int]
"""The table itself, or each of its partitions with rows → its file number."""

# The leaf partitions, or the table itself; without pg_partition_tree, which waits for locks. pg_relation_filenode reads
# the newest catalog even inside a snapshot, while pg_class is read as of the snapshot.
_PARTS = """SELECT wanted.schema, wanted."table", n.nspname, c.relname, pg_relation_filenode(c.oid)
  FROM unnest(%s::text[], %s::text[]) AS wanted(schema, "table")
  JOIN pg_namespace m ON m.nspname = wanted.schema
  JOIN pg_class named ON named.relnamespace = m.oid AND named.relname = wanted."table"
 CROSS JOIN LATERAL (
       WITH RECURSIVE tree(oid) AS (
           SELECT named.oid
           UNION ALL SELECT link.inhrelid FROM tree JOIN pg_inherits link ON link.inhparent = tree.oid
                      WHERE named.relkind = 'p')
       SELECT oid FROM tree) AS part
  JOIN pg_class c ON c.oid = part.oid AND c.relkind <> 'p'
  JOIN pg_namespace n ON n.oid = c.relnamespace"""

# the current size is at least the snapshot's: VACUUM cannot truncate a locked table
_PAGES = "SELECT pg_relation_size({}::regclass)" + f" / {PAGE_BYTES}"
# with what is stored out of line
_BYTES = "SELECT pg_table_size({}::regclass)"
# reltuples is -1 before the first ANALYZE
_ROWS = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = {}::regclass"


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """A snapshot for any number of readers, and the sizes of the tables.

    `pages`: of 8 KiB, for each partition. `stored_bytes`: with what is stored out of line. `estimated_rows`: from the
    planner's statistics, for progress only.
    """

    snapshot: str
    pages: Mapping[TableName, Pages]
    stored_bytes: Mapping[TableName, int]
    estimated_rows: Mapping[TableName, int]


def files(connection: Connection, tables: Sequence[TableName]) -> dict[TableName, Files]:
    """Read the current file numbers of each table; call this before the slot is created.

    The numbers are from the newest catalog, even inside a snapshot: so a rewritten table is found.
    """
    wanted = ([name.schema for name in tables], [name.table for name in tables])
    found: dict[TableName, dict[TableName, int]] = {name: {} for name in tables}
    for schema, table, of_schema, part, file in connection.execute(_PARTS, wanted):
        found[TableName(schema, table)][TableName(of_schema, part)] = file
    return dict(found)


@contextmanager
def hold_snapshot(
    connection: Connection,
    snapshot: str | None,
    tables: Sequence[TableName],
    before: Mapping[TableName, Files],
    on_lock: OnLock,
) -> Iterator[SharedSnapshot]:
    """Import `snapshot` in `connection` (not in autocommit), lock the tables, and export it again for readers.

    Without a `snapshot`, one of now is taken.

    `on_lock` is called whenever a table could not be locked for LOOK_SECONDS; it waits on unless that raises. Raises
    TableRewrittenError when a table's files are no longer those of `before`.
    """
    with connection.transaction():
        # both before any query, which would give the transaction a snapshot of its own
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot is not None:
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        connection.execute(f"SET LOCAL lock_timeout = '{LOOK_SECONDS}s'")
        for table in tables:
            _lock(connection, [table, *before[table]], on_lock)
        connection.execute("SET LOCAL lock_timeout = 0")
        # after the locks: from here on the files cannot change
        for table, held in files(connection, tables).items():
            if before.get(table) != held:
                raise _to_rewrite_error(table)
        # readers import this export, not the slot's: it lasts exactly as long as the locks
        exported = read_value(connection, "SELECT pg_export_snapshot()")
        pages = {table: _each(connection, _PAGES, before[table]) for table in tables}
        stored = {table: sum(_each(connection, _BYTES, before[table]).values()) for table in tables}
        rows = {table: sum(_each(connection, _ROWS, before[table]).values()) for table in tables}
        yield SharedSnapshot(exported, pages, stored, rows)


def _lock(connection: Connection, parts: Sequence[TableName], on_lock: OnLock) -> None:
    for part in parts:
        while not _has_locked(connection, part):
            on_lock(locked_error(f"{part} cannot be read", find_holders(connection, [part])))


def _has_locked(connection: Connection, part: TableName) -> bool:
    """Lock a table; False if somebody else has locked it for too long."""
    try:
        # in a savepoint, so that the transaction goes on behind a time-out
        with connection.transaction():
            # conflicts with ACCESS EXCLUSIVE alone: writers go on, and whoever would rewrite the table waits
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(_name(part)))
    except psycopg.errors.LockNotAvailable:
        return False
    except psycopg.errors.UndefinedTable:
        raise _to_rewrite_error(part) from None
    return True


def _to_rewrite_error(table: TableName) -> TableRewrittenError:
    return TableRewrittenError(f"{table} was rewritten while its copy began", "start again")


def _each(connection: Connection, query: str, parts: Iterable[TableName]) -> dict[TableName, int]:
    return {
        part: int(read_value(connection, sql.SQL(query).format(sql.Literal(_name(part).as_string(connection)))))
        for part in parts
    }


def _name(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.table)
