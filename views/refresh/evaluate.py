"""A view's statement over a small set of rows, by an embedded engine."""

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from cdc.core.table import TableName

NEW, OLD = "#new", "#old"
"""Names that no column has: DuckDB takes a table's name for its whole row."""


class Evaluator:
    """Runs statements in DuckDB, in this process."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:")
        # one batch is small; a second thread costs more than it saves
        self._connection.execute("SET threads = 1")
        self._connection.execute("SET TimeZone = 'UTC'")

    def evaluate(self, query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query in DuckDB's dialect over these tables."""
        for name, rows in tables.items():
            self._connection.register(name, rows)
        try:
            return self._connection.sql(query).to_arrow_table()
        finally:
            for name in tables:
                self._connection.unregister(name)


def translate(tree: exp.Query, names: Mapping[TableName, str]) -> str:
    """The statement in DuckDB's dialect, over tables of these names."""

    def rename(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table):
            name = names[TableName(node.db, node.name)]
            return exp.alias_(exp.to_table(name), node.alias_or_name, table=True)
        return node

    return tree.copy().transform(rename).sql(dialect="duckdb", identify=True)


def compare_rows(evaluator: Evaluator, old: pa.Table, new: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows of `new` that differ from their keys' in `old` or are not there, and the keys that only `old` has."""
    same_key = " AND ".join(f'"{NEW}"."{name}" = "{OLD}"."{name}"' for name in key)
    tables = {NEW: new, OLD: old}
    differs = f'"{OLD}" IS NULL OR "{NEW}" IS DISTINCT FROM "{OLD}"'
    rows = f'SELECT "{NEW}".* FROM "{NEW}" LEFT JOIN "{OLD}" ON {same_key} WHERE {differs}'
    columns = ", ".join(f'"{OLD}"."{name}"' for name in key)
    gone = f'SELECT {columns} FROM "{OLD}" ANTI JOIN "{NEW}" ON {same_key}'
    return evaluator.evaluate(rows, tables), evaluator.evaluate(gone, tables)
