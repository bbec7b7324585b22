"""Compares views with their statements, run by Spark over the tables at the same cut, and followers with the views."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.names import quoted
from cdc.columns.rows.compare import Comparison, compare, hash_side
from cdc.columns.rows.digest import Digest, digest_of_copy
from cdc.columns.rows.held import rows_as_held
from cdc.columns.table_copy import FrameCopy, RowsTask
from cdc.columns.types.spark_types import row_type
from cdc.config.settings import VIEWS
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.bulkhead import compare_alone
from cdc.run.verify.pinned_source import TABLES_AT_ONCE, FollowerReader
from cdc.run.verify.report import Verdict
from cdc.run.views.view_definitions import define_present_views
from cdc.sinks.lake import layout
from cdc.sinks.lake.feed.digest import digest_of_files
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.standing import find_standing
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_readable, sort_views
from cdc.views.refresh.refresh import ViewShape
from cdc.views.spark.frames import open_tables, read_table, run_statement

TRIES = 3
"""How often a follower is compared that moved on meanwhile."""
Verdicts = Mapping[str, Mapping[TableName, Verdict]]


@dataclass(frozen=True, slots=True)
class ResultCopy:
    """A statement's result as a `TableCopy` of its view: in the view's types, with lists sorted."""

    result: DataFrame
    shape: ViewShape

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        work = partial(_conform_and_run, shape=self.shape, task=task)
        return FrameCopy(self.result, self.shape.table).map_parts(work, schema)

    def frame(self) -> DataFrame:
        """The rows as a frame of the view's columns."""
        table = self.shape.table
        columns = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in row_type(table))
        return self.map_parts(_to_batches, columns)


def _conform_and_run(parts: Iterable[pa.Table], shape: ViewShape, task: RowsTask) -> Iterable[pa.RecordBatch]:
    return task(shape.conform(part) for part in parts)


def _to_batches(parts: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from part.to_batches()


def _require_view(lake: Lake, view: ViewDefinition, cut: Cut) -> Table:
    try:
        return layout.require_table(lake, view.name, cut.versions[str(view.name)])
    except TableLostError as lost:
        raise PreconditionError(f"view {view.name}: {lost.why}", "`cdc follow` fills it anew") from lost


@dataclass(frozen=True, slots=True)
class ViewComparison:
    """Compares the views of a pipeline; names at most `max_keys` keys of each."""

    pipeline: Pipeline
    max_keys: int

    def compare(
        self, followers: Mapping[str, FollowerReader], only: Collection[TableName], *, with_views: bool
    ) -> Verdicts:
        """Compare views with their statements, and these followers with the views; `only`: these, if there are any."""
        # one that cannot be read is stopped, and compared with nothing
        ordered, refused = sort_readable(define_present_views(self.pipeline))
        views = [*ordered, *refused]
        wanted = [view for view in views if not only or view.name in only]
        own = {VIEWS: self._compare_each(wanted, self._compare_view)} if with_views else {}
        found = {
            name: self._compare_each(
                [view for view in wanted if self.pipeline.settings.holds(name, view.name)],
                partial(self._compare_follower, reader),
            )
            for name, reader in followers.items()
        }
        return {**own, **found}

    def _compare_each(
        self, views: Sequence[ViewDefinition], compare: Callable[[ViewDefinition], Verdict]
    ) -> Mapping[TableName, Verdict]:
        # Spark spends most of a small view's time on the start of its jobs
        with ThreadPoolExecutor(TABLES_AT_ONCE) as threads:
            verdicts = threads.map(partial(self._alone, compare=compare), views)
            return {view.name: verdict for view, verdict in zip(views, verdicts, strict=True)}

    def _alone(self, view: ViewDefinition, compare: Callable[[ViewDefinition], Verdict]) -> Verdict:
        return compare_alone(f"view {view.name}", partial(compare, view))

    def _compare_view(self, view: ViewDefinition) -> Verdict:
        store = self.pipeline.views
        cut, stop = store.cuts.last(), store.find_stop(view)
        if stop or cut is None or str(view.name) not in cut.versions:
            reason = stop.reason if stop else "it is in no cut yet"
            return Verdict(None, stopped=PreconditionError(f"view {view.name}: {reason}", "see `cdc status`"))
        with translate_errors(f"the comparison of view {view.name}"):
            stands = find_standing(self.pipeline.lake, view.name, cut)
            return Verdict(self.compare_at(view, stands, store.shown_cut(cut, view.name)))

    def compare_at(self, view: ViewDefinition, cut: Cut, shown: Cut) -> Comparison:
        """Compare the view at `cut` with its statement over the tables at the cut that it shows."""
        lake = self.pipeline.lake
        compiled = self._compile(view, shown)
        table = _require_view(lake, view, cut)
        present = LakeFeed(self.pipeline.spark, lake, with_views=True).copy(table, cut)
        read = compiled.statement.tables
        spark, frames = open_tables(self.pipeline.spark, lake, shown, [read[name] for name in compiled.tables])
        with run_statement(spark, compiled.statement, frames) as result:
            copy = ResultCopy(result, compiled.shape(table))
            ours, theirs = digest_of_copy(copy, table), digest_of_files(present)
            if ours == theirs:
                return Comparison(ours.rows, theirs.rows)
            return self._compare_rows(copy.frame(), read_table(spark, lake, cut, view.name), table)

    def _compare_rows(self, ours: DataFrame, theirs: DataFrame, table: Table) -> Comparison:
        left, right = hash_side(ours, table), hash_side(theirs, table)
        try:
            return compare(left, right, table, self.max_keys)
        finally:
            left.release()
            right.release()

    def _compile(self, view: ViewDefinition, cut: Cut) -> CompiledView:
        lake = self.pipeline.lake
        tables = {name: layout.require_table(lake, name, cut.versions[str(name)]) for name in sort_views([view])[view]}
        return compile_view(view, tables)

    def _compare_follower(self, reader: FollowerReader, view: ViewDefinition) -> Verdict:
        if (stop := reader.stops().get(view.name)) is not None:
            return Verdict(None, stopped=PreconditionError(stop.what, stop.remedy))
        moved = 0
        for _ in range(TRIES):
            cut, table, ours = self._digest_for(reader, view)
            theirs = reader.digest(table)
            if self._has_same(reader, view, cut):
                return Verdict(self._compare_with(reader, table, cut, ours, theirs))
            moved += 1
        return Verdict(None, moved)

    def _digest_for(self, reader: FollowerReader, view: ViewDefinition) -> tuple[Cut, Table, Digest]:
        """The cut at which the follower stands, and the view there."""
        feed, position = LakeFeed(self.pipeline.spark, self.pipeline.lake, with_views=True), reader.position()
        cut = feed.require_cut(position) if position else feed.last_cut()
        table = _require_view(self.pipeline.lake, view, cut)
        return cut, table, digest_of_files(feed.copy(table, cut), reader.held(table))

    def _has_same(self, reader: FollowerReader, view: ViewDefinition, cut: Cut) -> bool:
        """Whether the follower still has the view as it is in the cut."""
        position = reader.position()
        now = LakeFeed(None, self.pipeline.lake, with_views=True).find_cut(position) if position else None
        return now is not None and now.versions.get(str(view.name)) == cut.versions.get(str(view.name))

    def _compare_with(self, reader: FollowerReader, table: Table, cut: Cut, ours: Digest, theirs: Digest) -> Comparison:
        if ours == theirs:
            return Comparison(ours.rows, theirs.rows)
        rows, held = read_table(self.pipeline.spark, self.pipeline.lake, cut, table.name), reader.held(table)
        followed = reader.rows(table)
        if held:
            rows, table = rows_as_held(FrameCopy(rows, table), table, held), held.table
        return self._compare_rows(rows, followed, table)
