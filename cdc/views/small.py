"""A whole view over small tables, computed by DuckDB in this process: Spark takes seconds, however few the rows are."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql import types as T

from cdc.core.copied_file import CopiedFile
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Table, TableName
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.table.load import LakeCopyWriter, prepare_folder
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.views.compiled import CompiledView
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.write_rows import find_key_problem
from cdc.views.spark.result_types import describe_view
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.tree.spelling import spell_columns

SMALL_BYTES: Final = 8 * 2**20
"""Of the files of all tables of a view."""
MAX_COMBINATIONS: Final = 1_000_000
"""Of the rows of all uses: as many as a join of all rows with all has."""


def compute_small(
    view: CompiledView, tables: Mapping[TableName, PinnedTable], most_rows: int
) -> tuple[Table, pa.Table] | None:
    """The view and its rows; None where Spark has to compute them.

    That is where the statement is not proven to give the same in DuckDB, or has a column without a name, or its tables
    have more than `most_rows` rows, or too many combinations. Raises PreconditionError as `describe_view`,
    ViewStoppedError when the key is not one.
    """
    if not isinstance(view.duckdb, DuckStatement) or not are_small(view, tables, most_rows):
        return None
    names = [name for name in spell_columns(view.statement.tree.root) if name is not None]
    if len(names) < len(view.duckdb.types) or _may_join_too_many(view, tables):
        return None
    rows = {view.names[name]: _read(view, name, tables[name]) for name in view.tables}
    # an error there need not be one of the statement
    with suppress(duckdb.Error, pa.ArrowException):
        table, result = _evaluate(view, view.duckdb, names, rows)
        if problem := find_key_problem(result, table.key):
            raise ViewStoppedError(table.name, problem)
        return table, result
    return None


def _may_join_too_many(view: CompiledView, tables: Mapping[TableName, PinnedTable]) -> bool:
    """Whether the statement may join all rows with all, and these are too many.

    It may where a change of a table touches every row of the view.
    """
    if not view.plan.whole:
        return False
    return prod(tables[use.table].row_count for use in view.plan.uses.values()) > MAX_COMBINATIONS


def _evaluate(
    view: CompiledView, statement: DuckStatement, names: Sequence[str], rows: Mapping[str, pa.Table]
) -> tuple[Table, pa.Table]:
    fields = [T.StructField(name, kind) for name, kind in zip(names, statement.types, strict=True)]
    table = describe_view(view.definition, T.StructType(fields), view.sources())
    return table, view.shape(table).conform(Evaluator().evaluate(statement.sql, rows))


def are_small(view: CompiledView, tables: Mapping[TableName, PinnedTable], most_rows: int) -> bool:
    """Whether all tables of a view together have at most `most_rows` rows, and SMALL_BYTES in files."""
    read = [tables[name] for name in view.tables]
    return (
        sum(each.physical_rows for each in read) <= most_rows and sum(each.file_bytes for each in read) <= SMALL_BYTES
    )


def _read(view: CompiledView, name: TableName, table: PinnedTable) -> pa.Table:
    # of a table whose rows are counted only, any column
    return table.read_all(view.plan.columns[name] or table.table.column_names[:1])


def write_small(rows: pa.Table, table: Table, lake: Lake) -> list[CopiedFile]:
    """Write the rows as a file of the view, which nobody reads before it is loaded."""
    storage = prepare_folder(lake, table.name)
    return [LakeCopyWriter(table, storage)(rows.to_batches())] if rows.num_rows else []
