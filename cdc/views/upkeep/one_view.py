"""Brings the rows of one view to a cut: the touched ones, or all of them."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from cdc.core.counters import COUNTERS, GROUPS
from cdc.core.errors import PreconditionError
from cdc.core.fail_points import reach
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.patch import name_again
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.sinks.lake.table.row_files import RowFiles
from cdc.views.compiled import CompiledView, PresentRows
from cdc.views.engines import Engines
from cdc.views.refresh.derived import NotDerivedError
from cdc.views.refresh.refresh import ViewEngine, refresh
from cdc.views.refresh.row_hashes import HashedRows, hashed_schema
from cdc.views.refresh.touched import TouchedKeys
from cdc.views.refresh.write_rows import ViewChanges, write_changes
from cdc.views.spark.whole import ViewFiles
from cdc.views.store import ViewStore
from cdc.views.upkeep.computation import Computation
from cdc.views.upkeep.computing_threads import ComputingThreads
from cdc.views.upkeep.kept_view import KeptView
from cdc.views.upkeep.repairs import choose_keys, to_touched
from cdc.views.upkeep.table_steps import Bounds
from cdc.views.upkeep.view_step import ViewStep
from cdc.views.upkeep.whole_views import WholeViews

PARTS_OF_KEYS: Final = "by part of the key"
"""The folder of indexes of views by some columns of their keys."""
Lookups = Mapping[TableName, TableLookup]


@dataclass(frozen=True, slots=True)
class _Work:
    """One view's part of a step."""

    view: KeptView
    compiled: CompiledView
    lookups: Lookups
    step: ViewStep


class Upkeep:
    """Computes views and writes them: by keys at once, as a whole in a thread of their own."""

    def __init__(
        self,
        spark: SparkSession,
        store: ViewStore,
        recent: ChangeCache,
        say: Callable[[str], None],
        bounds: Bounds,
    ) -> None:
        self._store = store
        self._recent = recent
        self._say = say
        self._bounds = bounds
        self._engines = Engines(spark)
        self.threads = ComputingThreads(spark, recent.announce_cut)
        self._whole = WholeViews(spark, store, self.threads, say, bounds.small_rows)

    def bring(self, view: KeptView, lookups: Lookups, step: ViewStep) -> LakeTable | None:
        """Bring a view to the step's cut, where its tables are; None while it is filled beside the other views.

        One that is computed as a whole meanwhile shows the cut before (`as_of`).
        """
        table, compiled = self._store.find_in(step.since, view.definition), view.compiled
        if compiled is None or not compiled.tables <= lookups.keys():
            raise PreconditionError(f"views.{view.name}: a table that it reads cannot be opened")
        if table is not None and (step.lost & {*view.tables} or not compiled.has_columns_of(table.table)):
            table = None
        if view.computation and not view.computation.is_of(compiled, table.id if table else None):
            view.drop_computation()
        work = _Work(view, compiled, lookups, step)
        if table is None or step.since is None:
            return self._fill(work)
        self._move_on(work, table, step.since.versions[str(view.name)])
        return self._require(view)

    def _require(self, view: KeptView) -> LakeTable:
        found = self._store.find(view.definition)
        assert found is not None
        return found

    def _move_on(self, work: _Work, table: LakeTable, version: int) -> None:
        """From the cut before, of which the table has this version, to the step's."""
        view, step, plan = work.view, work.step, work.compiled.plan
        changed, large = step.changes_of(view.tables), step.large & {*view.tables}
        keys = choose_keys(step.repairs.get(view.name), table.table)
        asked = to_touched(plan, keys) if keys is not None else []
        if view.as_of is None and keys is not None and not asked:
            self._put_off(work, version, "some of its rows are repaired")
            view.whole_at = Deadline(0)
        if view.as_of is None and any(plan.uses[alias].table in {*changed, *large} for alias in plan.whole):
            self._put_off(work, version, "")
        elif view.as_of is None and large:
            self._put_off(work, version, f"too many changes of {min(large)} at once")
        if view.as_of is None and (changed or asked):
            self._refresh(work, table, changed, version, asked)
        if view.as_of is not None and (view.computation or view.whole_at.is_past):
            self._compute_whole(work, table)
        if view.as_of is None and view.name in step.repairs:
            # the rows are right by now; whoever follows the view may have others
            if keys is not None:
                name_again(table.writer, keys, self._store.lake.app_id)
            step.repaired.add(view.name)

    def _put_off(self, work: _Work, version: int, reason: str) -> None:
        """Leave a view at the cut before, which has this version, until it is computed as a whole."""
        assert work.step.since is not None
        work.view.show(work.step.since, version)
        work.view.whole_reason = reason

    def _choose_patience(self, work: _Work) -> float:
        """How long the others wait for a computation of this view that goes on or begins, in seconds."""
        if work.view.whole_seconds == 0:
            # it may show no older cut
            return math.inf
        begins, was_quick = work.view.computation is None, work.view.seconds <= self._bounds.wait_seconds
        return work.step.patience if begins and was_quick else 0.0

    def _refresh(
        self,
        work: _Work,
        table: LakeTable,
        changed: Mapping[TableName, RowChanges],
        version: int,
        asked: Sequence[TouchedKeys],
    ) -> None:
        view, compiled = work.view, work.compiled
        present = self._open_present(view, table)
        engine = ViewEngine(partial(self._engines.run, compiled), present.find)
        keys = self._bounds.keys
        most = max(keys, int(self._bounds.share * table.writer.snapshot.live_rows))
        try:
            tables = compiled.derived.attach(work.lookups, changed)
            for changes in refresh(compiled.shape(table.table), tables, engine, keys, most, asked):
                self._write(table, changes, work.step.cut)
        except (TooManyRowsError, NotDerivedError) as error:
            # rows that were written already are in no cut before all are
            self._put_off(work, version, str(error))
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

    def _write(self, table: LakeTable, changes: ViewChanges, cut: Cut) -> None:
        if changes:
            COUNTERS.add(GROUPS, str(table.table.name), len(changes))
            version, written = write_changes(table.writer, changes, self._store.lake.app_id, cut.position.end_offset)
            reach("views.written")
            self._recent.put(table.id, version, written)

    def _compute_whole(self, work: _Work, table: LakeTable) -> None:
        present = PinnedTable(table.table, table.writer.snapshot, table.writer.storage)
        computation = self._compute(work, present, self._choose_patience(work))
        if computation is None:
            return
        made = computation.outcome.require()
        if isinstance(made, ViewFiles):
            self._whole.load(made, computation)
        else:
            self._write(table, made, computation.cut)
        self._catch_up(work, computation)

    def _fill(self, work: _Work) -> LakeTable | None:
        view = work.view
        computation = self._compute(work, None, self._choose_patience(work) if work.step.moves else 0.0)
        if computation is None:
            return None
        work.step.repaired |= {view.name} & work.step.repairs.keys()
        made = computation.outcome.require()
        assert isinstance(made, ViewFiles)
        if self._store.was_shown(view.definition):
            work.step.replaced.add(view.name)
        self._whole.load(made, computation)
        reach("views.filled")
        rows = sum(file.rows for file in made.files)
        self._say(f"view {view.name}: {rows:,} rows computed in {view.seconds:.1f} s")
        view.whole_reason = ""
        self._catch_up(work, computation)
        return self._require(view)

    def _compute(self, work: _Work, present: PinnedTable | None, patience: float) -> Computation | None:
        """The view's computation, begun now if none goes on; None if it has not ended within so many seconds."""
        view = work.view
        if view.computation is None:
            tables = {name: work.lookups[name].pin() for name in work.compiled.tables}
            is_urgent = patience == math.inf
            view.computation = self._whole.begin(work.compiled, work.step.cut, tables, present, is_urgent=is_urgent)
        computation, began = view.computation, time.monotonic()
        has_ended = computation is not None and computation.wait(patience)
        work.step.patience = max(work.step.patience - (time.monotonic() - began), 0.0)
        if computation is None or not has_ended:
            return None
        view.computation, view.seconds = None, computation.outcome.seconds
        return computation

    def _catch_up(self, work: _Work, computation: Computation) -> None:
        """From the cut where a computation began to the step's, where the tables are by now."""
        work.view.was_computed()
        if computation.cut.position != work.step.cut.position:
            since, table = replace(work, step=computation.since(work.step)), self._require(work.view)
            self._move_on(since, table, table.writer.snapshot.version)
