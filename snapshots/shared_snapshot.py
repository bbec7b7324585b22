"""Keeps a snapshot readable: one session that holds it, and a lock on every table that is read from it.

Without the locks a `VACUUM FULL` or a rewriting `ALTER TABLE` between the snapshot and a reader makes that reader see
no rows at all (Postgres manual, "Caveats" of MVCC).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import Connection, sql

from cdc.core.errors import TableRewrittenError
from cdc.core.table import TableName
from snapshots.ranges import Pages

PAGE_BYTES = 8192

Files = Mapping[TableName, int]
"""The parts of a table that have rows of their own, itself or its partitions, each with the number of its file."""

# The leaves of a partitioned table; of another, itself. What Postgres's functions say is the newest catalog's, also
# inside a snapshot, and what pg_class says is the snapshot's.
_PARTS = """SELECT wanted.schema, wanted."table", n.nspname, c.relname, pg_relation_filenode(c.oid)
  FROM unnest(%s::text[], %s::text[]) AS wanted(schema, "table")
  JOIN pg_namespace m ON m.nspname = wanted.schema
  JOIN pg_class named ON named.relnamespace = m.oid AND named.relname = wanted."table"
 CROSS JOIN LATERAL (
       SELECT named.oid WHERE named.relkind <> 'p'
       UNION SELECT relid FROM pg_partition_tree(named.oid) WHERE named.relkind = 'p' AND isleaf) AS part(oid)
  JOIN pg_class c ON c.oid = part.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace"""

# as large as now, no smaller than in the snapshot: VACUUM cannot cut a locked table's end off
_PAGES = "SELECT pg_relation_size({}::regclass)" + f" / {PAGE_BYTES}"
# below 0 where nobody has analysed the table yet
_ROWS = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = {}::regclass"


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """A snapshot that any number of readers may import, and how large the tables are in it.

    `pages` of 8 KiB, of each part of a table that has rows of its own; `estimated_rows` by the planner's statistics,
    for progress only.
    """

    snapshot: str
    pages: Mapping[TableName, Pages]
    estimated_rows: Mapping[TableName, int]


def files(connection: Connection, tables: Sequence[TableName]) -> dict[TableName, Files]:
    """Which files hold each table now; to be asked before the slot is made.

    It is the newest catalog that answers, also inside a snapshot: that is how a rewritten table is found.
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

    Raises TableRewritten when a table's files are no longer those of `before`.
    """
    with connection.transaction():
        # both before any query: a transaction that has looked at something has a snapshot of its own
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        for table in tables:
            _lock(connection, [table, *before[table]])
        # behind the locks: what is compared now cannot be rewritten any more
        for table, held in files(connection, tables).items():
            if before.get(table) != held:
                raise _to_rewrite_error(table)
        # readers import this one: it lasts as long as this transaction, and so as long as the locks that they rely on
        exported = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert exported is not None
        pages = {table: _each(connection, _PAGES, before[table]) for table in tables}
        rows = {table: sum(_each(connection, _ROWS, before[table]).values()) for table in tables}
        yield SharedSnapshot(exported[0], pages, rows)


def _lock(connection: Connection, parts: Sequence[TableName]) -> None:
    for part in parts:
        try:
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(_name(part)))
        except psycopg.errors.UndefinedTable:
            raise _to_rewrite_error(part) from None


def _to_rewrite_error(table: TableName) -> TableRewrittenError:
    return TableRewrittenError(f"{table} was rewritten while its copy began", "start again")


def _each(connection: Connection, query: str, parts: Iterable[TableName]) -> dict[TableName, int]:
    return {part: _one(connection, query, part) for part in parts}


def _one(connection: Connection, query: str, table: TableName) -> int:
    name = sql.Literal(_name(table).as_string(connection))
    row = connection.execute(sql.SQL(query).format(name)).fetchone()
    assert row is not None
    return int(row[0])


def _name(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.table)
