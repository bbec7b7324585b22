"""Brings the rows of one view to a cut: the touched ones, or all of them."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.sinks.lake.table.row_files import RowFiles
from cdc.views.compiled import CompiledView, PresentRows
from cdc.views.engines import Engines
from cdc.views.kept_view import KeptView, ViewStep
from cdc.views.refresh.derived import NotDerivedError
from cdc.views.refresh.refresh import ViewEngine, refresh
from cdc.views.refresh.row_hashes import HashedRows, hashed_schema
from cdc.views.refresh.write_rows import ViewChanges, write_changes
from cdc.views.spark.whole import WholeComputation
from cdc.views.store import ViewStore, bookmark_at
from cdc.views.table_steps import Bounds

PARTS_OF_KEYS: Final = "by part of the key"
"""The folder of indexes of views by some columns of their keys."""
Lookups = Mapping[TableName, TableLookup]


class Upkeep:
    """Computes views and writes them."""

    def __init__(
        self,
        spark: SparkSession,
        store: ViewStore,
        recent: ChangeCache,
        say: Callable[[str], None],
        bounds: Bounds,
    ) -> None:
        self._spark = spark
        self._store = store
        self._recent = recent
        self._say = say
        self._bounds = bounds
        self._engines = Engines(spark)

    def bring(self, view: KeptView, lookups: Lookups, step: ViewStep) -> LakeTable:
        """Bring a view to the step's cut, where its tables are, whatever it takes."""
        table, compiled = self._store.find_in(step.since, view.definition), view.compiled
        if compiled is None:
            raise PreconditionError(f"views.{view.name}: a table that it reads cannot be opened")
        if table is None or step.lost & {*view.tables} or not compiled.has_columns_of(table.table):
            return self._fill(view, compiled, lookups, step)
        self._move_on(view, compiled, table, lookups, step)
        found = self._store.find(view.definition)
        assert found is not None
        return found

    def _move_on(
        self, view: KeptView, compiled: CompiledView, table: LakeTable, lookups: Lookups, step: ViewStep
    ) -> None:
        changed, large = step.changes_of(view.tables), step.large & {*view.tables}
        plan = compiled.plan
        if view.as_of is None and any(plan.uses[alias].table in {*changed, *large} for alias in plan.whole):
            view.whole_reason = ""
            self._put_off(view, step)
        elif view.as_of is None and large:
            view.whole_reason = f"too many changes of {min(large)} at once"
            self._put_off(view, step)
        if view.as_of is None and changed:
            self._refresh(view, compiled, table, lookups, changed, step)
        if view.as_of is not None and view.whole_at.is_past:
            self._compute_whole(view, compiled, table, lookups, step)

    def _put_off(self, view: KeptView, step: ViewStep) -> None:
        """Leave a view at the cut before, until it is computed as a whole."""
        assert step.since is not None
        view.as_of = step.since.position.end_offset

    def _refresh(
        self,
        view: KeptView,
        compiled: CompiledView,
        table: LakeTable,
        lookups: Lookups,
        changed: Mapping[TableName, RowChanges],
        step: ViewStep,
    ) -> None:
        present = self._open_present(view, table)
        engine = ViewEngine(partial(self._engines.run, compiled), present.find)
        keys = self._bounds.keys
        most = max(keys, int(self._bounds.share * table.writer.snapshot.live_rows))
        before = table.writer.snapshot.version
        try:
            tables = compiled.derived.attach(lookups, changed)
            for changes in refresh(compiled.shape(table.table), tables, engine, keys, most):
                self._write(table, changes, step)
        except (TooManyRowsError, NotDerivedError) as error:
            view.whole_reason = str(error)
            self._put_off(view, step)
            if table.writer.snapshot.version > before:
                # some rows are of this cut already: it cannot show the one before
                view.whole_at = Deadline(0)
        else:
            view.whole_reason = ""

    def _open_present(self, view: KeptView, table: LakeTable) -> PresentRows:
        if view.present is None or view.present.writer is not table.writer:
            folder = self._store.indexes / PARTS_OF_KEYS / layout.folder_name(view.name)
            lookup = TableLookup(table.table, table.writer.storage, table.writer.log, folder)
            view.present = PresentRows(table.writer, lookup)
            hashed = HashedRows(table.table)
            table.writer.rows.row_files = RowFiles(folder / "rows", hashed_schema(table.table), hashed.derivation())
        return view.present

    def _write(self, table: LakeTable, changes: ViewChanges, step: ViewStep) -> None:
        if changes:
            app_id, to = self._store.lake.app_id, step.cut.position.end_offset
            version, written = write_changes(table.writer, changes, app_id, to)
            self._recent.put(table.id, version, written)

    def _compute_whole(
        self, view: KeptView, compiled: CompiledView, table: LakeTable, lookups: Lookups, step: ViewStep
    ) -> None:
        whole = WholeComputation(self._spark, self._store.lake, step.cut, lookups, self._bounds.small_rows)
        changes = whole.differences(compiled, table.writer)
        if changes is None:
            self._load(view, compiled, lookups, step, anew=False)
        else:
            self._write(table, changes, step)
        view.was_computed()

    def _fill(self, view: KeptView, compiled: CompiledView, lookups: Lookups, step: ViewStep) -> LakeTable:
        began = time.monotonic()
        self._load(view, compiled, lookups, step, anew=True)
        table = self._store.find(view.definition)
        assert table is not None
        rows, seconds = table.writer.snapshot.live_rows, time.monotonic() - began
        self._say(f"view {view.name}: {rows:,} rows computed in {seconds:.1f} s")
        view.whole_reason = ""
        view.was_computed()
        return table

    def _load(self, view: KeptView, compiled: CompiledView, lookups: Lookups, step: ViewStep, *, anew: bool) -> None:
        of_source = lookups[view.tables[0]].snapshot.configuration
        whole = WholeComputation(self._spark, self._store.lake, step.cut, lookups, self._bounds.small_rows)
        whole.fill(compiled, bookmark_at(step.cut, of_source), anew=anew)
        self._store.tables.forget([view.name])
