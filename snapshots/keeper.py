"""Keeps a snapshot readable: one session that holds it, and a lock on every table that is read from it.

Without the locks a `VACUUM FULL` or a rewriting `ALTER TABLE` between the snapshot and a reader makes that reader see
no rows at all (Postgres manual, "Caveats" of MVCC).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import Connection, sql

from cdc.core.errors import CdcError
from cdc.core.table import TableName

PAGE_BYTES = 8192

Filenodes = Mapping[TableName, int]


class TableRewritten(CdcError):
    """A table got a new file between the slot's snapshot and the lock: the copy has to start over."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that any number of readers may import, and how large the tables are in it.

    `pages` of 8 KiB; `estimated_rows` by the planner's statistics, for progress only.
    """

    snapshot: str
    pages: Mapping[TableName, int]
    estimated_rows: Mapping[TableName, int]


def filenodes(connection: Connection, tables: Sequence[TableName]) -> Filenodes:
    """Which file holds each table now; to be asked before the slot is made.

    It is the newest catalog that answers, also inside a snapshot: that is how a rewritten table is found.
    """
    return {table: _one(connection, "SELECT pg_relation_filenode({}::regclass)", table) for table in tables}


@contextmanager
def kept(connection: Connection, snapshot: str, tables: Sequence[TableName], before: Filenodes) -> Iterator[Kept]:
    """Import `snapshot` in `connection` (not in autocommit), lock the tables, and export it again for readers.

    Raises TableRewritten when a table's file is no longer the one of `before`.
    """
    with connection.transaction():
        # both before any query: a transaction that has looked at something has a snapshot of its own
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        for table in tables:
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(_name(table)))
        # behind the locks: what is compared now cannot be rewritten any more
        for table, node in filenodes(connection, tables).items():
            if before.get(table) != node:
                raise TableRewritten(f"{table} was rewritten while its copy began", "start again")
        # readers import this one: it lasts as long as this transaction, and so as long as the locks that they rely on
        exported = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert exported is not None
        yield Kept(exported[0], _pages(connection, tables), _rows(connection, tables))


def _pages(connection: Connection, tables: Sequence[TableName]) -> dict[TableName, int]:
    # as large as now, no smaller than in the snapshot: VACUUM cannot cut a locked table's end off
    size = "SELECT pg_relation_size({}::regclass)"
    return {table: -(-_one(connection, size, table) // PAGE_BYTES) for table in tables}


def _rows(connection: Connection, tables: Sequence[TableName]) -> dict[TableName, int]:
    # below 0 where nobody has analysed the table yet
    rows = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = {}::regclass"
    return {table: _one(connection, rows, table) for table in tables}


def _one(connection: Connection, query: str, table: TableName) -> int:
    name = sql.Literal(_name(table).as_string(connection))
    row = connection.execute(sql.SQL(query).format(name)).fetchone()
    assert row is not None
    return int(row[0])


def _name(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.table)
