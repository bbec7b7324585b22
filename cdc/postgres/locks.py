"""Who locks a table: what an ALTER, or another command that waits, keeps from being read."""

from collections.abc import Sequence
from typing import Final

from psycopg import Connection

from cdc.core.errors import UnreachableError
from cdc.core.table import TableName

# Also those who wait for the lock: whoever comes later waits behind them. The partitions' locks count, too.
_HOLDERS: Final = """
WITH RECURSIVE locked(oid) AS (
    SELECT c.oid
      FROM unnest(%s::text[], %s::text[]) AS wanted(schema, "table")
      JOIN pg_namespace n ON n.nspname = wanted.schema
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted."table"
    UNION
    SELECT link.inhrelid FROM locked JOIN pg_inherits link ON link.inhparent = locked.oid
)
SELECT DISTINCT 'session ' || coalesce(held.pid::text, '(a prepared transaction)')
  FROM pg_locks held JOIN locked ON held.relation = locked.oid
 WHERE held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND held.pid IS DISTINCT FROM pg_backend_pid() AND held.mode = ANY(%s)
 ORDER BY 1"""
LOCK_PATIENCE: Final = "30s"
"""How long a step that makes or checks something waits for a table that somebody has locked."""
ALL_BUT_READERS: Final = (
    "AccessExclusiveLock",
    "ExclusiveLock",
    "ShareRowExclusiveLock",
    "ShareLock",
    "ShareUpdateExclusiveLock",
)
"""Locks that a command which alters a table's publication waits for."""
AGAINST_READERS: Final = ("AccessExclusiveLock",)
"""Locks that a SELECT waits for."""


def find_holders(
    connection: Connection, tables: Sequence[TableName], modes: Sequence[str] = AGAINST_READERS
) -> list[str]:
    """The sessions that hold, or wait for, one of these locks on one of the tables or their partitions."""
    wanted = ([name.schema for name in tables], [name.table for name in tables])
    return [row[0] for row in connection.execute(_HOLDERS, (*wanted, list(modes))).fetchall()]


def locked_error(what: str, holders: Sequence[str]) -> UnreachableError:
    """Make the error for a table that is locked; `what`: the table, and what was not done."""
    by = f" by {', '.join(holders)}" if holders else ""
    return UnreachableError(f"{what}: it is locked{by}", "wait until that ends, or end it (pg_terminate_backend)")
