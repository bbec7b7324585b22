"""Compute a whole view by Spark: its first content, and later what changes that touch every row have made of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Bookmark
from cdc.core.table import TableName
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.load import load_copy
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.sinks.lake.table.writer import TableWriter
from cdc.views.compiled import CompiledView
from cdc.views.refresh.row_hashes import compare, hash_rows
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.small import are_small, compute_small, write_small
from cdc.views.spark.fill import write_result
from cdc.views.spark.frames import open_rows, read_table, run_statement
from cdc.views.spark.result_types import describe_view

MAX_COMPARED_ROWS: Final = 200_000
"""Rows of a whole view that are compared in this process; the files of a larger one are replaced."""
MAX_COMPARED_BYTES: Final = 64 * 2**20
"""The same, of its files."""


@dataclass(frozen=True, slots=True)
class WholeComputation:
    """Computes views over a lake's tables and views at one cut."""

    spark: SparkSession
    lake: Lake
    cut: Cut
    lookups: Mapping[TableName, TableLookup]
    """The tables at this cut."""
    small_rows: int
    """Of tables that Spark does not read."""

    def fill(self, view: CompiledView, bookmark: Bookmark, *, anew: bool) -> None:
        """Compute the view, and make that its content; `anew`: as another table.

        Raises ViewStoppedError when its key is none, PreconditionError when it has a type that a view cannot have.
        """
        if small := compute_small(view, self.lookups, self.small_rows):
            table, rows = small
            files = write_small(rows, table, self.lake)
        else:
            with self._run(view) as result:
                table = describe_view(view.definition, result.schema, view.sources())
                files = write_result(result, view.shape(table), self.lake)
        load_copy(self.lake, table, files, bookmark, anew=anew, properties=view.definition.as_properties())

    def differences(self, view: CompiledView, writer: TableWriter) -> ViewChanges | None:
        """What the result changes in the present view; None if it is too large to be compared here."""
        size = sum(file.size for file in writer.snapshot.files.values())
        if writer.snapshot.live_rows > MAX_COMPARED_ROWS or size > MAX_COMPARED_BYTES:
            return None
        if small := compute_small(view, self.lookups, self.small_rows):
            return compare(writer.table, hash_rows(_read_all(writer), writer.table), small[1])
        with self._run(view) as result:
            new = result.limit(MAX_COMPARED_ROWS + 1).toArrow()
        if new.num_rows > MAX_COMPARED_ROWS:
            return None
        table = writer.table
        return compare(table, hash_rows(_read_all(writer), table), view.shape(table).conform(new))

    @contextmanager
    def _run(self, view: CompiledView) -> Iterator[DataFrame]:
        with run_statement(self.spark, view.statement, self._open_tables(view)) as result:
            yield result

    def _open_tables(self, view: CompiledView) -> Mapping[TableName, DataFrame]:
        """The tables at the cut. Small ones are read here: to open a Delta table takes Spark half a second."""
        read, lookups = view.statement.tables, self.lookups
        # over a table that it knows to be empty, Spark would pass over what is wrong in the statement
        is_any_empty = not all(lookups[name].snapshot.live_rows for name in view.tables)
        if are_small(view, lookups, self.small_rows) and not is_any_empty:
            return {n: open_rows(self.spark, lookups[n].read_all(read[n].column_names), read[n]) for n in view.tables}
        return {name: read_table(self.spark, self.lake, self.cut, name) for name in view.tables}


def _read_all(writer: TableWriter) -> pa.Table:
    # compaction, in another thread, deletes no file that this snapshot has
    files = writer.snapshot.files.values()
    parts = [part for file in files for part in live_rows(writer.storage, Share(file), writer.table)]
    return pa.concat_tables([arrow_schema(writer.table).empty_table(), *parts])
