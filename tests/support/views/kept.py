"""A lake with views, the process that keeps them up, and Spark's own answer to compare them with."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.types.arrow_types import arrow_schema
from cdc.columns.types.spark_types import row_type
from cdc.core.position import Position
from cdc.core.table import Table, TableName
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import CompiledView
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.spark.frames import read_table, run_statement
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.final_windows import list_read_tables
from cdc.views.store import ViewStore
from cdc.views.upkeep.keeper import BOUNDS, KeeperHooks, ViewKeeper
from cdc.views.upkeep.kept_view import KeptView
from cdc.views.upkeep.table_steps import Bounds
from tests.support.lake.cut_lake import CutLake
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.model import Row


class Kept:
    """A lake with views, and the process that keeps them up."""

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        tables: Sequence[Table],
        views: Sequence[ViewDefinition],
        lake: PlacedLake | None = None,
    ) -> None:
        self.place, self.views = place, views
        self.said = list[str]()
        self._frames: tuple[Position | None, dict[TableName, DataFrame]] = (None, {})
        lake = lake or in_folder(place)
        self.spark = lake.for_spark(spark)
        self.source = CutLake(lake, tables)
        self.restart()

    def restart(self, whole_seconds: float = 0.0, bounds: Bounds = BOUNDS) -> None:
        """Go on as a new process: nothing is left but the lake and the folder of indexes."""
        self.store = ViewStore(self.source.lake, self.place / "state")
        self.kept = [KeptView(view, list_read_tables(view), whole_seconds) for view in self.views]
        self.keeper = ViewKeeper(
            self.spark, self.store, self.kept, KeeperHooks(self.said.append, ChangeCache(0)), bounds
        )

    def compiled(self, view: ViewDefinition) -> CompiledView:
        compiled = next(each.compiled for each in self.kept if each.definition is view)
        assert compiled
        return compiled

    def rows(self, view: ViewDefinition, cut: Cut) -> list[Row]:
        return _sorted(self._read_view(view, cut))

    def _read_view(self, view: ViewDefinition, cut: Cut) -> "_Rows":
        table = self.store.find(view)
        assert table is not None, self.said
        assert cut.versions[str(view.name)] == table.writer.snapshot.version
        parts = [
            part
            for file in table.writer.snapshot.files.values()
            for part in live_rows(table.writer.storage, Share(file), table.table)
        ]
        return _Rows(table.table, pa.concat_tables([arrow_schema(table.table).empty_table(), *parts]))

    def recompute(self, view: ViewDefinition, cut: Cut) -> list[Row]:
        """The view's statement, run on the whole tables at the cut."""
        compiled = self.compiled(view)
        with run_statement(self.spark, compiled.statement, self._read(compiled, cut)) as result:
            return self._in_shape(view, result.toArrow())

    def recompute_proven(self, view: ViewDefinition, cut: Cut) -> list[Row]:
        """The same in DuckDB where it is proven to be the same there, at the newest cut."""
        compiled, written = self.compiled(view), self._written(cut)
        if not isinstance(compiled.duckdb, DuckStatement) or not compiled.tables <= written.keys():
            return self.recompute(view, cut)
        rows = {compiled.names[name]: written[name].rows for name in compiled.tables}
        return self._in_shape(view, Evaluator().evaluate(compiled.duckdb.sql, rows))

    def _in_shape(self, view: ViewDefinition, result: pa.Table) -> list[Row]:
        table = self.store.find(view)
        assert table
        return _sorted(_Rows(table.table, self.compiled(view).shape(table.table).conform(result)))

    def _read(self, compiled: CompiledView, cut: Cut) -> Mapping[TableName, DataFrame]:
        """The tables at the cut, each made a frame once for all views."""
        if self._frames[0] != cut.position:
            self._frames = (cut.position, {})
        _, frames = self._frames
        if lacking := compiled.tables - frames.keys():
            written = self._written(cut)
            for name in lacking:
                frames[name] = self._make_frame(written.get(name), name, cut)
        return frames

    def _make_frame(self, written: "_Rows | None", name: TableName, cut: Cut) -> DataFrame:
        # to open a Delta table takes Spark longer than a statement
        if written is None:
            return read_table(self.spark, self.source.lake, cut, name)
        return self.spark.createDataFrame(written.rows, row_type(written.table))

    def _written(self, cut: Cut) -> dict[TableName, "_Rows"]:
        """What was written: the tables at the newest cut, nothing at another; and the views that others read."""
        written = {
            name: _Rows(table, pa.Table.from_pylist(rows, arrow_schema(table)))
            for name, (table, rows) in self.source.rows_at(cut).items()
        }
        read = {name for each in self.kept if each.compiled for name in each.compiled.tables}
        views = [view for view in self.views if view.name in read and str(view.name) in cut.versions and written]
        return {**written, **{view.name: self._read_view(view, cut) for view in views}}

    def differences(self, cut: Cut, *, all_by_spark: bool = True) -> Iterator[tuple[str, list[Row], list[Row]]]:
        """The views that are not their statements' results at the cut: the name, what it has, what it should have.

        `all_by_spark`: or else only what is not proven to give the same in DuckDB.
        """
        recompute = self.recompute if all_by_spark else self.recompute_proven
        for view in self.views:
            mine, theirs = self.rows(view, cut), recompute(view, cut)
            if mine != theirs:
                yield str(view.name), mine, theirs


class KeptWithoutSpark(Kept):
    """The same for views that DuckDB computes as a whole, too; what they should be it tells of the rows written."""

    def __init__(self, place: Path, tables: Sequence[Table], views: Sequence[ViewDefinition]) -> None:
        # whatever asks it fails
        super().__init__(cast("SparkSession", None), place, tables, views)

    def recompute(self, view: ViewDefinition, cut: Cut) -> list[Row]:
        compiled = self.compiled(view)
        assert isinstance(compiled.duckdb, DuckStatement)
        assert compiled.tables <= self._written(cut).keys()
        return self.recompute_proven(view, cut)


class _Rows(NamedTuple):
    table: Table
    rows: pa.Table


def _sorted(found: _Rows) -> list[Row]:
    return sorted(found.rows.to_pylist(), key=lambda row: [str(row[name]) for name in found.table.key])
