"""Keeps the views of a lake up: brings each from cut to cut, fills new ones, and stops those that cannot go on."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.core.error_text import pick_root_cause
from cdc.core.errors import ConfigurationError, HistoryLostError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.sinks.lake.table.row_files import RowFiles
from cdc.views.compiled import CompiledView, PresentRows, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.engines import Engines
from cdc.views.refresh.derived import NotDerivedError
from cdc.views.refresh.lake_tables import TablesAtCut, TooManyRowsError
from cdc.views.refresh.refresh import ViewEngine, refresh
from cdc.views.refresh.row_hashes import HashedRows, hashed_schema
from cdc.views.refresh.write_rows import ViewChanges, write_changes
from cdc.views.spark.whole import WholeComputation
from cdc.views.store import ViewStore, bookmark_at
from cdc.views.text_columns.notices import explain_stop

RETRY_SECONDS: Final = 30.0
"""Least pause before a stopped view is filled again: somebody may have repaired the cause."""
BACKOFF_FACTOR: Final = 10
"""The pause is this many times the duration of the try."""
PARTS_OF_KEYS: Final = "by part of the key"
"""The folder of indexes of views by some columns of their keys."""
Say = Callable[[str], None]


@dataclass(slots=True)
class KeptView:
    """A view, and what its keeper remembers of it.

    `tables`: those that it reads. `whole_seconds`: the least pause between two computations of the whole view.
    `as_of`: the END offset of the older cut that it shows, while changes that touch every row are not in it yet.
    """

    definition: ViewDefinition
    tables: Sequence[TableName]
    whole_seconds: float
    compiled: CompiledView | None = None
    described: Mapping[TableName, Table] = field(default_factory=dict)
    present: PresentRows | None = None
    retry_at: Deadline = field(default_factory=lambda: Deadline(0))
    whole_at: Deadline = field(default_factory=lambda: Deadline(0))
    as_of: int | None = None
    problem: str = ""

    @property
    def name(self) -> TableName:
        return self.definition.name


@dataclass(slots=True)
class _Step:
    """One cut's work: from `since` (None at first) to `cut`, which has the views that stand at it so far.

    `large`: tables with more changes than are held here. `lost`: tables that are others than before.
    """

    since: Cut | None
    cut: Cut
    changes: dict[TableName, RowChanges] = field(default_factory=dict)
    large: set[TableName] = field(default_factory=set)
    lost: set[TableName] = field(default_factory=set)
    done: dict[TableName, LakeTable] = field(default_factory=dict)


class ViewKeeper:
    """Brings views to one cut after another. `views`: each after those that it reads. `recent` receives the changes."""

    def __init__(
        self, spark: SparkSession, store: ViewStore, views: Sequence[KeptView], recent: ChangeCache, say: Say
    ) -> None:
        self._spark = spark
        self.store = store
        self._views = views
        self._recent = recent
        self._say = say
        self._tables: TablesAtCut | None = None
        self._engines = Engines(spark)
        store.prepare([view.definition for view in views])
        last = store.cuts.last()
        for view in views:
            view.as_of = last.as_of.get(str(view.name)) if last else None

    def advance(self, cut: Cut) -> Cut:
        """Bring all views to a cut of the tables; returns the cut that has both. Raises what ends the stream."""
        since = self.store.cuts.last()
        if since is not None and since.position.covers(cut.position):
            return since
        step = _Step(since, cut)
        try:
            self._take_changes(step)
            for view in self._views:
                self._bring(view, step)
        except BaseException:
            # the tables stand at no cut any more
            self._tables = None
            raise
        views = [view for view in self._views if view.name in step.done]
        as_of = {str(view.name): view.as_of for view in views if view.as_of is not None}
        reached = self.store.add_cut(cut, step.done, as_of)
        self._recent.announce_cut()
        return reached

    def save(self) -> None:
        """Save all indexes, so that the next process need not read the files again."""
        if self._tables:
            self._tables.save()
        for _, writer in self.store.tables.list_open():
            writer.save_index(everything=True)

    @property
    def _opened(self) -> TablesAtCut:
        if self._tables is None:
            self._tables = TablesAtCut(self.store.lake, self.store.indexes)
        return self._tables

    def _take_changes(self, step: _Step) -> None:
        """Read the changes of all tables between the cuts."""
        names = {name for view in self._views for name in view.tables}
        if self._tables is None and step.since:
            step.lost |= self._opened.open(step.since, names)
        for view in self._views:
            with suppress(ConfigurationError):
                self._compile(view)
        for name in self._opened.lookups.keys() - {view.name for view in self._views}:
            self._take_changes_of(name, step)
        # tables that are new in this cut, or another one than before
        step.lost |= self._opened.open(step.cut, names)

    def _take_changes_of(self, name: TableName, step: _Step) -> None:
        columns = {c for view in self._views if view.compiled for c in view.compiled.plan.columns.get(name, ())}
        self._opened.lookups[name].copy_rows(sorted(columns))
        try:
            changes = self._opened.advance(name, step.cut, columns)
        except HistoryLostError:
            step.lost.add(name)
            self._opened.lookups.pop(name, None)
            return
        except TooManyRowsError:
            step.large.add(name)
            return
        if changes is not None:
            step.changes[name] = changes

    def _compile(self, view: KeptView) -> None:
        """Compile a view if its tables are there, and have other columns than before."""
        described = self._opened.describe(view.tables)
        if described is not None and described != view.described:
            # nothing stays of it if a column that it reads is gone
            view.compiled, view.described = None, {}
            view.compiled = compile_view(view.definition, described)
            view.described = described

    def _bring(self, view: KeptView, step: _Step) -> None:
        """Bring one view to the step's cut; it is left out of the cut if it cannot be."""
        absent = [name for name in view.tables if str(name) not in step.cut.versions]
        if absent:
            self._note(view, f"waits for {absent[0]}, which is in no cut now")
            return
        if self.store.find_stop(view.definition) and not view.retry_at.is_past:
            return
        began = time.monotonic()
        try:
            self._compile(view)
            table = self._bring_rows(view, step)
        # a view whose own files are lost is filled anew
        except (PreconditionError, ConfigurationError, HistoryLostError) as error:
            self._stop(view, step, error.what, time.monotonic() - began)
        except PySparkException as error:
            self._stop(view, step, pick_root_cause(str(error)), time.monotonic() - began)
        else:
            self._note(view, "")
            self._finish(view, table, step)

    def _bring_rows(self, view: KeptView, step: _Step) -> LakeTable:
        table, compiled = self.store.find_in(step.since, view.definition), view.compiled
        if compiled is None:
            raise PreconditionError(f"views.{view.name}: a table that it reads cannot be opened")
        if table is None or step.lost & {*view.tables} or not compiled.has_columns_of(table.table):
            return self._fill(view, compiled, step)
        changed = {name: step.changes[name] for name in view.tables if name in step.changes}
        assert step.since is not None
        touches_all = any(compiled.plan.uses[alias].table in {*changed, *step.large} for alias in compiled.plan.whole)
        if view.as_of is None and touches_all:
            view.as_of = step.since.position.end_offset
        if view.as_of is not None:
            if view.whole_at.is_past:
                self._compute_whole(view, compiled, table, step)
        elif step.large & {*view.tables}:
            self._compute_whole(view, compiled, table, step)
        elif changed:
            self._refresh(view, compiled, table, step)
        found = self.store.find(view.definition)
        assert found is not None
        return found

    def _refresh(self, view: KeptView, compiled: CompiledView, table: LakeTable, step: _Step) -> None:
        present, lookups = self._open_present(view, table), self._opened.lookups
        changed = {name: step.changes[name] for name in view.tables if name in step.changes}
        try:
            engine = ViewEngine(partial(self._engines.run, compiled), present.find)
            changes = refresh(compiled.shape(table.table), compiled.derived.attach(lookups, changed), engine)
        except (TooManyRowsError, NotDerivedError):
            self._compute_whole(view, compiled, table, step)
        else:
            self._write(table, changes, step)

    def _open_present(self, view: KeptView, table: LakeTable) -> PresentRows:
        if view.present is None or view.present.writer is not table.writer:
            folder = self.store.indexes / PARTS_OF_KEYS / layout.folder_name(view.name)
            lookup = TableLookup(table.table, table.writer.storage, table.writer.log, folder)
            view.present = PresentRows(table.writer, lookup)
            hashed = HashedRows(table.table)
            table.writer.rows.row_files = RowFiles(folder / "rows", hashed_schema(table.table), hashed.derivation())
        return view.present

    def _write(self, table: LakeTable, changes: ViewChanges | None, step: _Step) -> None:
        if changes:
            app_id, to = self.store.lake.app_id, step.cut.position.end_offset
            version, written = write_changes(table.writer, changes, app_id, to)
            self._recent.put(table.id, version, written)

    def _compute_whole(self, view: KeptView, compiled: CompiledView, table: LakeTable, step: _Step) -> None:
        whole = WholeComputation(self._spark, self.store.lake, step.cut)
        changes = whole.differences(compiled, table.writer)
        if changes is None:
            self._load(view, compiled, step, anew=False)
        else:
            self._write(table, changes, step)
        view.whole_at, view.as_of = Deadline(view.whole_seconds), None

    def _fill(self, view: KeptView, compiled: CompiledView, step: _Step) -> LakeTable:
        began = time.monotonic()
        self._load(view, compiled, step, anew=True)
        table = self.store.find(view.definition)
        assert table is not None
        rows, seconds = table.writer.snapshot.live_rows, time.monotonic() - began
        self._say(f"view {view.name}: {rows:,} rows computed in {seconds:.1f} s")
        view.whole_at, view.as_of = Deadline(view.whole_seconds), None
        return table

    def _load(self, view: KeptView, compiled: CompiledView, step: _Step, *, anew: bool) -> None:
        of_source = self._opened.lookups[view.tables[0]].snapshot.configuration
        whole = WholeComputation(self._spark, self.store.lake, step.cut)
        whole.fill(compiled, bookmark_at(step.cut, of_source), anew=anew)
        self.store.tables.forget([view.name])

    def _finish(self, view: KeptView, table: LakeTable, step: _Step) -> None:
        """Add a view to the step's cut, where views over it read it."""
        step.done[view.name] = table
        snapshot, name = table.writer.snapshot, str(view.name)
        step.cut = replace(
            step.cut,
            versions={**step.cut.versions, name: snapshot.version},
            ids={**step.cut.ids, name: snapshot.table_id},
        )
        if any(view.name in other.tables for other in self._views):
            if view.name in self._opened.lookups:
                self._take_changes_of(view.name, step)
            self._opened.open(step.cut, [view.name])

    def _stop(self, view: KeptView, step: _Step, reason: str, seconds: float) -> None:
        reason = reason.removeprefix(f"view {view.name}: ").removeprefix(f"views.{view.name}: ")
        tables = {name: table for each in self._views for name, table in each.described.items()}
        reason = explain_stop(reason, view.name, [each.definition for each in self._views], tables)
        self.store.stop(view.definition, step.cut.position.lsn, reason)
        view.retry_at = Deadline(max(RETRY_SECONDS, BACKOFF_FACTOR * seconds))
        self._note(view, f"is kept up no further: {reason}")

    def _note(self, view: KeptView, problem: str) -> None:
        """Say a view's problem once, and when it is over."""
        if problem != view.problem:
            self._say(f"view {view.name} {problem or 'goes on'}")
        view.problem = problem
