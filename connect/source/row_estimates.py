"""Estimates the rows of tables by the catalog, without reading them."""

from collections.abc import Iterable

from psycopg import Connection

from cdc.core.table import TableName
from cdc.postgres.values import read_value


def read_estimates(connection: Connection, names: Iterable[TableName]) -> dict[TableName, int | None]:
    """The planner's estimate of each table's rows, partitions included; None for one that was never analysed."""
    # reltuples is -1 for a table that was never analysed
    query = (
        "WITH RECURSIVE tree(oid) AS (SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid UNION ALL"
        " SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid JOIN pg_class c ON c.oid = inhrelid AND"
        " c.relispartition) SELECT sum(c.reltuples) FILTER (WHERE c.relkind <> 'p' AND c.reltuples >= 0)::bigint"
        " FROM tree JOIN pg_class c USING (oid)"
    )
    found = {name: read_value(connection, query, name.schema, name.table) for name in names}
    return {name: None if rows is None else int(rows) for name, rows in found.items()}


def estimate_rows(connection: Connection, names: Iterable[TableName]) -> dict[TableName, int]:
    """The planner's estimate of each table's rows, partitions included; 0 for one that was never analysed."""
    return {name: rows or 0 for name, rows in read_estimates(connection, names).items()}
