"""A statement in DuckDB's SQL, or why DuckDB may not evaluate it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

from cdc.core.table import TableName

# each module puts its expressions on the list
from cdc.views.statement.dialect import (
    aggregates,
    arithmetic,
    arrays,
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
from cdc.views.statement.dialect.registry import name_of
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import NOTHING
from cdc.views.statement.dialect.values import PartNotProvenError, Unproven
from cdc.views.statement.read_columns import list_read_columns
from cdc.views.statement.statement import Statement

__all__ = ["DuckStatement", "find_unproven", "write_statement"]
_MODULES = (
    aggregates,
    arithmetic,
    arrays,
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


def find_unproven(statement: Statement) -> list[Unproven]:
    """The expressions that are not proven to mean the same in DuckDB; if there are none, it may evaluate them."""
    names = {name: str(name) for name in statement.tables}
    found = write_statement(statement, names)
    return found if isinstance(found, list) else []


def write_statement(statement: Statement, names: Mapping[TableName, str]) -> DuckStatement | list[Unproven]:
    """The statement over tables of these names in DuckDB, or what in it is not proven."""
    if statement.admission.opaque:
        return [Unproven(each.name, each.line, each.column, each.why) for each in statement.admission.opaque]
    translator = Translator(statement.tables, names, list_read_columns(statement))
    try:
        query = write_query(translator, statement.tree)
    except PartNotProvenError:
        assert translator.unproven
        return translator.unproven
    except RecursionError:
        return [Unproven(name_of(statement.tree), 0, 0, "it is nested too deep")]
    if NOTHING in query.types:
        translator.report(statement.tree, "a column of no type")
    return translator.unproven or DuckStatement(query.sql, query.types)
