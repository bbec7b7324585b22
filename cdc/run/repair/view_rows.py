"""The rows of a view, by its statement and as it has them, at one cut; and what its followers have of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.rows.digest import digest_of_copy
from cdc.columns.rows.held import rows_as_held
from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.table_copy import FrameCopy
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.table import Table
from cdc.run.pipeline import Pipeline
from cdc.run.repair.finding import join_keys, list_keys
from cdc.run.repair.places import KeyVerdict
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.view_comparison import ResultCopy
from cdc.sinks.lake import layout
from cdc.sinks.lake.feed.digest import digest_of_files
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.sinks.lake.feed.standing import find_standing
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_views
from cdc.views.spark.frames import open_rows, open_tables, read_table, run_statement


@dataclass(frozen=True, slots=True)
class ViewRows:
    """One view at the newest cut that has it, and the table of its rows; `stands`: the cut with the view as it is."""

    pipeline: Pipeline
    view: ViewDefinition
    cut: Cut
    table: Table
    stands: Cut

    @classmethod
    def open(cls, pipeline: Pipeline, view: ViewDefinition) -> "ViewRows":
        """Raises PreconditionError for a view that is stopped, or in no cut."""
        store = pipeline.views
        cut, stop = store.cuts.last(), store.find_stop(view)
        if stop or cut is None or str(view.name) not in cut.versions:
            reason = stop.reason if stop else "it is in no cut yet"
            raise PreconditionError(f"view {view.name}: {reason}", "see `cdc status`")
        try:
            table = layout.require_table(pipeline.lake, view.name, cut.versions[str(view.name)])
        except TableLostError as lost:
            raise PreconditionError(f"view {view.name}: {lost.why}", "`cdc follow` fills it anew") from lost
        return cls(pipeline, view, cut, table, find_standing(pipeline.lake, view.name, cut))

    def find_keys(self, most: int) -> pa.Table:
        """All keys by which the view differs from its statement."""
        return self._differing(None, most)

    def compare(self, keys: pa.Table) -> KeyVerdict:
        """Whether it does by these keys; all is of one moment."""
        wrong = row_bits(self._differing(keys, len(keys)), self.table)
        return KeyVerdict(are_among(row_bits(keys, self.table), wrong), np.zeros(len(keys), np.bool_))

    def _differing(self, keys: pa.Table | None, most: int) -> pa.Table:
        lake, name, store = self.pipeline.lake, self.view.name, self.pipeline.views
        shown = store.shown_cut(self.cut, name)
        compiled = self._compile(shown)
        read = compiled.statement.tables
        with translate_errors(f"the comparison of view {name}"):
            spark, frames = open_tables(self.pipeline.spark, lake, shown, [read[each] for each in compiled.tables])
            with run_statement(spark, compiled.statement, frames) as result:
                found = result if keys is None else self._select(result.toDF(*self.table.column_names), keys)
                copy = ResultCopy(found, compiled.shape(self.table))
                if keys is None and self._is_same(copy):
                    return key_schema(self.table).empty_table()
                theirs = read_table(spark, lake, self.stands, name)
                theirs = theirs if keys is None else self._select(theirs, keys)
                return list_keys(self.table, self.table, lambda: (copy.frame(), theirs), most, "its rows")

    def _is_same(self, copy: ResultCopy) -> bool:
        feed = LakeFeed(self.pipeline.spark, self.pipeline.lake, with_views=True)
        return digest_of_copy(copy, self.table) == digest_of_files(feed.copy(self.table, self.stands))

    def _select(self, rows: DataFrame, keys: pa.Table) -> DataFrame:
        """The rows with these keys: asked before the statement's groups are made, where the key is the group's."""
        by = Table(self.table.name, self.table.key_columns, self.table.key)
        wanted = F.broadcast(open_rows(rows.sparkSession, keys, by))
        return rows.join(wanted, [*self.table.key], "left_semi")

    def _compile(self, shown: Cut) -> CompiledView:
        names = sort_views([self.view])[self.view]
        lake = self.pipeline.lake
        tables = {name: layout.require_table(lake, name, shown.versions[str(name)]) for name in names}
        return compile_view(self.view, tables)


@dataclass(frozen=True, slots=True)
class ViewFollower:
    """A follower of views, compared with the view at the cut where it stands."""

    pipeline: Pipeline
    name: str
    reader: FollowerReader

    def _stand(self, view: ViewDefinition) -> tuple[Cut, Table]:
        feed, position = LakeFeed(self.pipeline.spark, self.pipeline.lake, with_views=True), self.reader.position()
        cut = feed.require_cut(position) if position else feed.last_cut()
        return cut, layout.require_table(self.pipeline.lake, view.name, cut.versions[str(view.name)])

    def find_keys(self, view: ViewDefinition, most: int) -> pa.Table:
        """All keys that differ, and perhaps some that changed meanwhile."""
        if (stop := self.reader.stops().get(view.name)) is not None:
            raise PreconditionError(stop.what, stop.remedy)
        cut, table = self._stand(view)
        held = self.reader.held(table)
        feed = LakeFeed(self.pipeline.spark, self.pipeline.lake, with_views=True)
        if digest_of_files(feed.copy(table, cut), held) == self.reader.digest(table):
            return key_schema(table).empty_table()

        def frames() -> tuple[DataFrame, DataFrame]:
            rows = read_table(self.pipeline.spark, self.pipeline.lake, cut, table.name)
            ours = rows_as_held(FrameCopy(rows, table), table, held) if held else rows
            return ours, self.reader.rows(table)

        with translate_errors(f"the comparison of view {view.name}"):
            return list_keys(table, held.table if held else table, frames, most, self.name)


def find_view_keys(rows: ViewRows, followers: Sequence[ViewFollower], most: int) -> pa.Table:
    """The keys of a view that differ from its statement, or in one of its followers."""
    found = [rows.find_keys(most), *(each.find_keys(rows.view, most) for each in followers)]
    return join_keys(found, rows.table)
