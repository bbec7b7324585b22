"""Rows of the source's tables and of the lake's, without Spark."""

from typing import Final

from psycopg import Connection, sql

from cdc.config.settings import PipelineSettings
from cdc.core.table import TableName
from cdc.run.pipeline import lake_of
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

EXACT_BELOW: Final = 1_000_000
"""Tables below the planner's estimate of so many rows are counted. Larger ones show the estimate, unless `exact`."""
# reltuples is -1 for a table that was never analysed: such a one is counted
_ESTIMATE: Final = """
SELECT (SELECT CASE WHEN min(c.reltuples) < 0 THEN -1 ELSE coalesce(sum(c.reltuples), 0) END
          FROM pg_class c
         WHERE c.oid = named.oid AND named.relkind <> 'p'
            OR c.oid IN (SELECT relid FROM pg_partition_tree(named.oid) WHERE isleaf))::bigint, named.relkind = 'p'
  FROM pg_class named WHERE named.oid = to_regclass(%s)"""


def count_source_rows(connection: Connection, table: TableName, *, exact: bool) -> int | None:
    """The table's rows, counted or estimated; None when the table does not exist."""
    name = sql.Identifier(table.schema, table.table)
    estimate = connection.execute(_ESTIMATE, (name.as_string(connection),)).fetchone()
    if estimate is None or (estimate[0] > EXACT_BELOW and not exact):
        return None if estimate is None else int(estimate[0])
    # of a partitioned table all rows; of another one, not those of tables that inherit from it
    counting = sql.SQL("SELECT count(*) FROM {}" if estimate[1] else "SELECT count(*) FROM ONLY {}")
    count = connection.execute(counting.format(name)).fetchone()
    return int(count[0]) if count else None


def count_lake_rows(settings: PipelineSettings, table: TableName, cut: Cut | None) -> int | None:
    """The table's rows in the lake at a cut; None when the cut does not have it."""
    if cut is None or str(table) not in cut.versions:
        return None
    return LakeFeed(None, lake_of(settings)).row_count(table, cut)
