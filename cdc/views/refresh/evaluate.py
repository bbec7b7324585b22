"""A view's statement over a small set of rows, by an embedded engine."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from cdc.views.statement.dialect.macros import create_macros


class Evaluator:
    """Runs statements in DuckDB, in this process."""

    def __init__(self) -> None:
        # it sees the tables that are registered, and no file, extension or name of Python
        self._connection = duckdb.connect(
            ":memory:", config={"enable_external_access": False, "python_enable_replacements": False}
        )
        # one batch is small; a second thread costs more than it saves
        self._connection.execute("SET threads = 1")
        self._connection.execute("SET TimeZone = 'UTC'")
        create_macros(self._connection)
        self._connection.execute("SET lock_configuration = true")

    def evaluate(self, query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query in DuckDB's dialect over these tables."""
        for name, rows in tables.items():
            self._connection.register(name, rows)
        try:
            return self._connection.sql(query).to_arrow_table()
        finally:
            for name in tables:
                self._connection.unregister(name)
