"""A view's statement over a small set of rows, by an embedded engine."""

from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot import exp

DIALECT: Final = "duckdb"


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


def translate(tree: exp.Query, names: Mapping[str, str]) -> str:
    """The statement in DuckDB's dialect. `names`: the names there of tables, by `schema.table` in lower case."""

    def rename(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table):
            name = names[f"{node.db}.{node.name}".lower()]
            return exp.alias_(exp.to_table(name), node.alias_or_name, table=True)
        return node

    return tree.copy().transform(rename).sql(dialect=DIALECT, identify=True)
