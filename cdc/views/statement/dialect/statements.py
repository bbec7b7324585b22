"""A statement in DuckDB's SQL, or why DuckDB may not evaluate it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T
from sqlglot import exp

from cdc.columns.types.spark_types import to_column
from cdc.core.table import Table, TableName
from cdc.views.plan import DerivedColumn

# each module puts its expressions on the list
from cdc.views.statement.dialect.expressions import (
    aggregates,
    arithmetic,
    arrays,
    calls,
    casts,
    comparisons,
    conditionals,
    dates,
    literals,
    text,
    time_windows,
    windows,
)
from cdc.views.statement.dialect.queries import write_query
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import NOTHING
from cdc.views.statement.dialect.values import PartNotProvenError, Unproven
from cdc.views.statement.entrance.kinds import name_of
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.build import build_tree

__all__ = ["TABLE", "DuckStatement", "compute_in_duckdb", "write_statement"]
_MODULES = (
    aggregates,
    arithmetic,
    arrays,
    calls,
    casts,
    comparisons,
    conditionals,
    dates,
    literals,
    text,
    time_windows,
    windows,
)


@dataclass(frozen=True, slots=True)
class DuckStatement:
    """A statement in DuckDB's SQL, and Spark's types of its columns, to which the result is to be cast.

    Columns are to be named by their position: DuckDB and Spark name expressions without a name differently.
    """

    sql: str
    types: Sequence[T.DataType]


def write_statement(statement: Statement, names: Mapping[TableName, str]) -> DuckStatement | list[Unproven]:
    """The statement over tables of these names in DuckDB, or what in it is not proven."""
    if statement.admission.opaque:
        return [Unproven(each.name, each.line, each.column, each.why) for each in statement.admission.opaque]
    translator, root = Translator(statement, names), statement.tree.root
    try:
        query = write_query(translator, root)
    except PartNotProvenError:
        assert translator.unproven
        return [*translator.unproven]
    except RecursionError:
        return [Unproven(name_of(root.node), 0, 0, "it is nested too deep")]
    if NOTHING in query.types:
        translator.report(root.node, "a column of no type")
    return [*translator.unproven] or DuckStatement(query.sql, query.types)


TABLE: Final = "t"
"""The name of the rows from which a computed column is computed."""


def compute_in_duckdb(table: Table, name: str, value: exp.Expr) -> DerivedColumn | None:
    """An expression over a table's columns as a computed column; None if it is not proven."""
    # a statement like others, so that nothing is proven twice, in two ways
    own = value.copy()
    for named in own.find_all(exp.Column):
        named.set("table", exp.to_identifier(TABLE))
    query = exp.Select(expressions=[exp.alias_(own, "v")]).from_(exp.table_(TABLE))
    tree = build_tree(query, lambda _: table)
    written = write_statement(Statement("", tree, {table.name: table}, (), ()), {table.name: TABLE})
    if not isinstance(written, DuckStatement):
        return None
    column, names = to_column(name, written.types[0]), {each.name for each in value.find_all(exp.Column)}
    inputs = tuple(each for each in table.column_names if each in names)
    return DerivedColumn(column, inputs, written.sql) if column else None
