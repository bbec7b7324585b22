"""Holds a snapshot for parallel readers: one session with the snapshot and a lock on every table.

Without the locks, a `VACUUM FULL` or a rewriting `ALTER TABLE` after the snapshot would make a reader see no rows at
all (Postgres manual, "Caveats" of MVCC).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import Connection, sql

from cdc.core.errors import TableRewrittenError
from cdc.core.table import TableName
from cdc.snapshots.ranges import Pages

PAGE_BYTES = 8192

Files = Mapping[TableName, int]
"""The table itself, or each of its partitions with rows → its file number."""

# The leaf partitions, or the table itself. pg_relation_filenode reads the newest catalog even inside a snapshot, while
# pg_class is read as of the snapshot.
_PARTS = """SELECT wanted.schema, wanted."table", n.nspname, c.relname, pg_relation_filenode(c.oid)
  FROM unnest(%s::text[], %s::text[]) AS wanted(schema, "table")
  JOIN pg_namespace m ON m.nspname = wanted.schema
  JOIN pg_class named ON named.relnamespace = m.oid AND named.relname = wanted."table"
 CROSS JOIN LATERAL (
       SELECT named.oid WHERE named.relkind <> 'p'
       UNION SELECT relid FROM pg_partition_tree(named.oid) WHERE named.relkind = 'p' AND isleaf) AS part(oid)
  JOIN pg_class c ON c.oid = part.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace"""

# the current size is at least the snapshot's: VACUUM cannot truncate a locked table
_PAGES = "SELECT pg_relation_size({}::regclass)" + f" / {PAGE_BYTES}"
# reltuples is -1 before the first ANALYZE
_ROWS = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = {}::regclass"


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """A snapshot for any number of readers, and the sizes of the tables.

    `pages`: of 8 KiB, for each partition. `estimated_rows`: from the planner's statistics, for progress only.
    """

    snapshot: str
    pages: Mapping[TableName, Pages]
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
    connection: Connection, snapshot: str, tables: Sequence[TableName], before: Mapping[TableName, Files]
) -> Iterator[SharedSnapshot]:
    """Import `snapshot` in `connection` (not in autocommit), lock the tables, and export it again for readers.

    Raises TableRewrittenError when a table's files are no longer those of `before`.
    """
    with connection.transaction():
        # both before any query, which would give the transaction a snapshot of its own
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        for table in tables:
            _lock(connection, [table, *before[table]])
        # after the locks: from here on the files cannot change
        for table, held in files(connection, tables).items():
            if before.get(table) != held:
                raise _to_rewrite_error(table)
        # readers import this export, not the slot's: it lasts exactly as long as the locks
        exported = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert exported is not None
        pages = {table: _each(connection, _PAGES, before[table]) for table in tables}
        rows = {table: sum(_each(connection, _ROWS, before[table]).values()) for table in tables}
        yield SharedSnapshot(exported[0], pages, rows)


def _lock(connection: Connection, parts: Sequence[TableName]) -> None:
    for part in parts:
        try:
            # conflicts with ACCESS EXCLUSIVE alone: writers go on, and whoever would rewrite the table waits
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(_name(part)))
        except psycopg.errors.UndefinedTable:
            raise _to_rewrite_error(part) from None


def _to_rewrite_error(table: TableName) -> TableRewrittenError:
    return TableRewrittenError(f"{table} was rewritten while its copy began", "start again")


def _each(connection: Connection, query: str, parts: Iterable[TableName]) -> dict[TableName, int]:
    numbers = dict[TableName, int]()
    for part in parts:
        row = connection.execute(sql.SQL(query).format(sql.Literal(_name(part).as_string(connection)))).fetchone()
        assert row is not None
        numbers[part] = int(row[0])
    return numbers


def _name(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.table)
