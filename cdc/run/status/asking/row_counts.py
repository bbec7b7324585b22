"""Rows of the source's tables and of the lake's, without Spark."""

from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.core.table import TableName
from cdc.postgres.errors import to_cdc_error
from cdc.postgres.locks import find_holders, locked_error
from cdc.postgres.values import read_value
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

EXACT_BELOW: Final = 1_000_000
"""Tables below the planner's estimate of so many rows are counted. Larger ones show the estimate, unless `exact`."""
EXACT_BELOW_BYTES: Final = 256 * 1024 * 1024
"""The same for a table that was never analysed, and has no estimate."""
LOCK_SECONDS: Final = 1
"""How long to wait for a table that somebody has locked."""
# reltuples is -1 for a table that was never analysed; without pg_partition_tree, which waits for locks of partitions
_ESTIMATE: Final = """
WITH RECURSIVE tree(oid) AS (
    SELECT to_regclass(%s)::oid
    UNION ALL
    SELECT link.inhrelid FROM tree JOIN pg_inherits link ON link.inhparent = tree.oid
      JOIN pg_class c ON c.oid = link.inhrelid AND c.relispartition
)
SELECT CASE WHEN min(c.reltuples) FILTER (WHERE c.relkind <> 'p') < 0 THEN NULL
            ELSE coalesce(sum(c.reltuples) FILTER (WHERE c.relkind <> 'p'), 0)::bigint END,
       bool_or(c.relkind = 'p')
  FROM tree JOIN pg_class c USING (oid) HAVING count(*) > 0"""
_BYTES: Final = """
WITH RECURSIVE tree(oid) AS (
    SELECT to_regclass(%s)::oid UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid
)
SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM tree"""


def count_source_rows(connection: Connection, table: TableName, *, exact: bool, where: str = "") -> int | None:
    """The table's rows, counted or estimated; None when the table does not exist, or has no estimate and is large.

    `where`: the condition of those that are followed, of which there is no estimate.

    Raises UnreachableError when somebody has locked it for LOCK_SECONDS, CdcError when Postgres refuses to count it.
    `connection` is in autocommit.
    """
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            return _count(connection, table, exact=exact, where=where)
    except psycopg.errors.LockNotAvailable:
        raise locked_error(f"rows of {table} are not counted", find_holders(connection, [table])) from None
    except psycopg.Error as error:
        if connection.closed or connection.broken:
            raise
        raise to_cdc_error(f"rows of {table} are not counted", error.sqlstate, error) from error


def _count(connection: Connection, table: TableName, *, exact: bool, where: str) -> int | None:
    name = sql.Identifier(table.schema, table.table)
    asked = name.as_string(connection)
    estimate = connection.execute(_ESTIMATE, (asked,)).fetchone()
    if estimate is None:
        return None
    rows, is_partitioned = estimate
    if rows is not None and rows > EXACT_BELOW and not exact:
        return None if where else int(rows)
    if rows is None and not exact and read_value(connection, _BYTES, asked) > EXACT_BELOW_BYTES:
        return None
    # of a partitioned table all rows; of another one, not those of tables that inherit from it
    counting = sql.SQL("SELECT count(*) FROM {}" if is_partitioned else "SELECT count(*) FROM ONLY {}")
    followed = sql.SQL(" WHERE (" + where + ")") if where else sql.SQL("")
    return int(read_value(connection, counting.format(name) + followed))


def count_lake_rows(pipeline: Pipeline, table: TableName, cut: Cut | None) -> int | None:
    """The table's rows in the lake at a cut; None when the cut does not have it."""
    if cut is None or str(table) not in cut.versions:
        return None
    known = pipeline.lake_follower.tables.find(table)
    if known is not None and known.is_at(cut):
        return known.writer.snapshot.live_rows
    return LakeFeed(None, pipeline.lake).row_count(table, cut)
