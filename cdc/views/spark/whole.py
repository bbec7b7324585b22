"""Compute a whole view by Spark: its first content, and later what changes that touch every row have made of it.

Nothing of the keeper's is touched, so that a thread of its own may do it: the tables stand still (`PinnedTable`), and
whoever asked for the result makes it the view's content.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.core.copied_file import CopiedFile
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Table, TableName
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.views.compiled import CompiledView
from cdc.views.refresh.row_hashes import compare, hash_rows
from cdc.views.refresh.write_rows import ViewChanges, find_key_problem
from cdc.views.small import are_small, compute_small, write_small
from cdc.views.spark.fill import write_result
from cdc.views.spark.frames import read_table, run_over_rows, run_statement
from cdc.views.spark.result_types import describe_view

MAX_COMPARED_ROWS: Final = 200_000
"""Rows of a whole view that are compared in this process; the files of a larger one are replaced."""
MAX_COMPARED_BYTES: Final = 64 * 2**20
"""The same, of its files."""


@dataclass(frozen=True, slots=True)
class ViewFiles:
    """A view's rows in files that nobody reads before they are loaded."""

    table: Table
    files: Sequence[CopiedFile]


@dataclass(frozen=True, slots=True)
class WholeComputation:
    """Computes a view over a lake's tables and views at one cut."""

    spark: SparkSession
    lake: Lake
    cut: Cut
    tables: Mapping[TableName, PinnedTable]
    """Those that it reads, at this cut."""
    small_rows: int
    """Of tables that Spark does not read."""

    def compute(self, view: CompiledView, present: PinnedTable | None) -> ViewFiles | ViewChanges:
        """All rows of the view, or what differs from its `present` ones if these are few. Raises as `fill`."""
        changes = self.differences(view, present) if present else None
        return self.fill(view) if changes is None else changes

    def fill(self, view: CompiledView) -> ViewFiles:
        """Compute the view into files.

        Raises ViewStoppedError when its key is none, PreconditionError when it has a type that a view cannot have.
        """
        if small := compute_small(view, self.tables, self.small_rows) or self._run_small(view):
            table, rows = small
            return ViewFiles(table, write_small(rows, table, self.lake))
        with self._run(view) as result:
            table = describe_view(view.definition, result.schema, view.sources())
            return ViewFiles(table, write_result(result, view.shape(table), self.lake))

    def differences(self, view: CompiledView, present: PinnedTable) -> ViewChanges | None:
        """What the result changes in the present view; None if it is too large to be compared here."""
        if present.row_count > MAX_COMPARED_ROWS or present.file_bytes > MAX_COMPARED_BYTES:
            return None
        if small := compute_small(view, self.tables, self.small_rows):
            return compare(present.table, _hash_all(present), small[1])
        with self._run(view) as result:
            new = result.limit(MAX_COMPARED_ROWS + 1).toArrow()
        if new.num_rows > MAX_COMPARED_ROWS:
            return None
        return compare(present.table, _hash_all(present), view.shape(present.table).conform(new))

    def _run_small(self, view: CompiledView) -> tuple[Table, pa.Table] | None:
        """The view and its rows, by a job of Spark's that reads and writes nothing itself; None if any is large."""
        if not self._reads_here(view):
            return None
        with self._run(view) as result:
            table = describe_view(view.definition, result.schema, view.sources())
            rows = result.limit(MAX_COMPARED_ROWS + 1).toArrow()
        if rows.num_rows > MAX_COMPARED_ROWS:
            return None
        rows = view.shape(table).conform(rows)
        if problem := find_key_problem(rows, table.key):
            raise ViewStoppedError(table.name, problem)
        return table, rows

    @contextmanager
    def _run(self, view: CompiledView) -> Iterator[DataFrame]:
        read, statement = view.statement.tables, view.statement
        if self._reads_here(view):
            rows = {name: self.tables[name].read_all(read[name].column_names) for name in view.tables}
            with run_over_rows(self.spark, statement, rows) as result:
                yield result
        else:
            frames = {name: read_table(self.spark, self.lake, self.cut, name) for name in view.tables}
            with run_statement(self.spark, statement, frames) as result:
                yield result

    def _reads_here(self, view: CompiledView) -> bool:
        """Whether the tables are small, and read here: to open a Delta table takes Spark half a second."""
        # over a table that it knows to be empty, Spark would pass over what is wrong in the statement
        is_any_empty = not all(self.tables[name].row_count for name in view.tables)
        return are_small(view, self.tables, self.small_rows) and not is_any_empty


def _hash_all(present: PinnedTable) -> pa.Table:
    return hash_rows(present.read_all(present.table.column_names), present.table)
