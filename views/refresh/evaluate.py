"""A view's statement over a small set of rows, by an embedded engine."""

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot import exp

from cdc.core.table import TableName
from views.statement.dialect.statements import DuckStatement, write_statement
from views.statement.statement import Statement

DIALECT: Final = "duckdb"
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


def translate(statement: Statement, names: Mapping[TableName, str]) -> DuckStatement:
    """The statement in DuckDB's dialect, over tables of these names; raises ValueError if it is not proven.

    An error of DuckDB in evaluating it is no error of the view: Spark is to evaluate those rows. Its result is to be
    cast to the types given, by position.
    """
    found = write_statement(statement, names)
    if isinstance(found, DuckStatement):
        return found
    raise ValueError(f"not proven to mean the same in DuckDB: {', '.join(each.name for each in found)}")


def compare_rows(evaluator: Evaluator, old: pa.Table, new: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows of `new` that differ from their keys' in `old` or are not there, and the keys that only `old` has."""
    tables = {NEW: new, OLD: old}
    same_key = exp.and_(*(exp.NullSafeEQ(this=_of(NEW, name), expression=_of(OLD, name)) for name in key))
    mine, theirs = exp.column(NEW, quoted=True), exp.column(OLD, quoted=True)
    differs = exp.or_(exp.Is(this=theirs, expression=exp.null()), exp.NullSafeNEQ(this=mine, expression=theirs))
    rows = exp.select(*(_of(NEW, name) for name in new.column_names)).from_(exp.to_table(NEW))
    rows = rows.join(exp.to_table(OLD), on=same_key, join_type="left").where(differs)
    gone = exp.select(*(_of(OLD, name) for name in key)).from_(exp.to_table(OLD))
    gone = gone.join(exp.to_table(NEW), on=same_key.copy(), join_type="anti")
    written, deleted = (query.sql(dialect=DIALECT, identify=True) for query in (rows, gone))
    return evaluator.evaluate(written, tables), evaluator.evaluate(deleted, tables)


def _of(table: str, name: str) -> exp.Column:
    return exp.column(name, table, quoted=True)
