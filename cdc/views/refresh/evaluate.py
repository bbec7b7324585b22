"""A view's statement over a small set of rows, by an embedded engine."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa


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
