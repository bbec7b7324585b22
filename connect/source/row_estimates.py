"""Estimates the rows of tables by the catalog, without reading them."""

from collections.abc import Iterable

from psycopg import Connection

from cdc.core.table import TableName
from cdc.postgres.values import read_value


def estimate_rows(connection: Connection, names: Iterable[TableName]) -> dict[TableName, int]:
    """The planner's estimate of each table's rows, partitions included; 0 for one that was never analysed."""
    # reltuples is -1 for a table that was never analysed
    query = (
        "WITH RECURSIVE tree(oid) AS (SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid UNION ALL"
        " SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid JOIN pg_class c ON c.oid = inhrelid AND"
        " c.relispartition) SELECT coalesce(sum(greatest(c.reltuples, 0)) FILTER (WHERE c.relkind <> 'p'), 0)::bigint"
        " FROM tree JOIN pg_class c USING (oid)"
    )
    return {name: int(read_value(connection, query, name.schema, name.table) or 0) for name in names}
