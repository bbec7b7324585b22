"""Keeps the views of a lake up: brings each from cut to cut, fills new ones, and stops those that cannot go on.

Whatever error a view meets, it stops that view alone. One that every view would meet is raised: a store that does not
answer, another process that has taken over.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from cdc.core.containment import contain_errors
from cdc.core.errors import PreconditionError
from cdc.core.fail_points import reach
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.core.text.lines import WarningLine
from cdc.core.waiting import Deadline
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.lake_tables import delete_other_folders
from cdc.views.store import ViewStore
from cdc.views.text_columns.notices import explain_stop
from cdc.views.upkeep.kept_view import KeptView
from cdc.views.upkeep.one_view import PARTS_OF_KEYS, Upkeep
from cdc.views.upkeep.repairs import NoRepairs, Repairs
from cdc.views.upkeep.table_steps import Bounds, CheckShared, TableSteps
from cdc.views.upkeep.unfilled import UnfilledViews
from cdc.views.upkeep.view_step import ViewStep

BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class KeeperHooks:
    """Whom a keeper tells: `say` gets lines, `recent` the changes of views.

    `check_shared`: asked after an error of a view; returns one after which no view can be computed. `define`: asked for
    the definitions of views at a cut, which name what of a history is there. `repairs`: asked for rows to be repaired.
    """

    say: Callable[[str], None]
    recent: ChangeCache
    check_shared: CheckShared = lambda: None
    define: Callable[[Cut], Sequence[ViewDefinition]] = lambda cut: ()
    repairs: Repairs = field(default_factory=NoRepairs)


class ViewKeeper:
    """Brings views to one cut after another. `views`: each after those that it reads."""

    def __init__(
        self,
        spark: SparkSession,
        store: ViewStore,
        views: Sequence[KeptView],
        hooks: KeeperHooks,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.store = store
        self._views = views
        self._hooks = hooks
        self._defined_for: frozenset[str] = frozenset()
        self._bounds = bounds
        self._unfilled = UnfilledViews(store, views)
        self._upkeep = Upkeep(spark, store, hooks.recent, hooks.say, bounds)
        self._tables: TableSteps | None = None
        self._reached: Cut | None = None
        store.prepare([view.definition for view in views])
        delete_other_folders(store.indexes / PARTS_OF_KEYS, [view.name for view in views])
        last = store.cuts.last()
        for view in views:
            if last and (as_of := last.as_of.get(str(view.name))) is not None:
                view.as_of, view.shown_version = as_of, last.versions.get(str(view.name))

    @property
    def has_delayed(self) -> bool:
        """Whether a view shows an older cut, until it is computed at a later one. Callable from any thread."""
        return any(view.as_of is not None for view in self._views)

    def bring(self, cut: Cut) -> Cut:
        """Bring all views to a cut of the tables, and fill those that can be; returns the cut that has both."""
        while not (reached := self.advance(cut)).position.covers(cut.position):
            pass
        while (has_filled := self.fill_next()) or self.is_filling:
            if not has_filled:
                self._upkeep.threads.wait_for_any()
        return self.store.cuts.last() or reached

    @property
    def is_filling(self) -> bool:
        """Whether a view is in no cut that will be, as far as is known."""
        return bool(self._unfilled.list_fillable(self._reached or self.store.cuts.last()))

    def advance(self, cut: Cut) -> Cut:
        """Bring the views that are filled to a cut of the tables, or some way towards it, if changes are many.

        Returns the cut that has the tables and these views. Raises what ends the stream.
        """
        since = self.store.cuts.last()
        self._reached = since
        if since is not None and since.position.covers(cut.position):
            return since
        self._redefine(cut)
        with self._moving() as tables:
            step = self._begin_step(tables, since, cut)
            # others wait for `fill_next`: what is filled goes on meanwhile
            for view in self._views:
                self._gather(view, step)
                if since and str(view.name) in since.versions:
                    self._bring(view, tables, step)
            reach("views.cut.before")
            self._reached = self.store.add_cut(self._note_delays(step))
            reach("views.cut.after")
        self._hooks.repairs.finish(step.repaired, self._reached.position)
        self._hooks.recent.announce_cut()
        return self._reached

    def fill_next(self) -> bool:
        """Show the views in no cut whose computation has ended, in the newest one, and begin those of others.

        Returns whether any has ended, or failed. A view is shown, whatever happens to the next one.
        """
        # what was reached here: while there is nothing to do, no look at the lake
        last = self._reached or self.store.cuts.last()
        for view, absent in self._unfilled.find_waiting(last):
            self._note(view, f"waits for {absent}, which is in no cut now")
        views = [view for view in self._unfilled.list_fillable(last) if self._is_due(view)]
        if last is None or not views:
            return False
        with self._moving() as tables:
            step = ViewStep(last, last)
            tables.open(step, last, self._names())
            try:
                for view in views:
                    if self._is_due(view):
                        self._bring(view, tables, step)
            finally:
                # what is filled stays filled, whatever has ended this
                if step.done:
                    self._reached = self.store.extend_cut(self._note_delays(step), step.replaced)
                    reach("views.extended")
                    self._hooks.recent.announce_cut()
        return any(view.name in step.done or self._unfilled.is_paused(view) for view in views)

    def _is_due(self, view: KeptView) -> bool:
        """Whether something is to be done for a view in no cut: its computation has ended, or can begin."""
        if view.computation is not None:
            return view.computation.has_ended
        return self._upkeep.threads.has_room(is_large=False)

    def refuse(self, view: ViewDefinition, reason: str) -> None:
        """Stop a view that cannot even be read."""
        last = self.store.cuts.last()
        self.store.stop(view, last.position.lsn if last else Lsn(0), reason)
        self._hooks.say(WarningLine(f"view {view.name} is kept up no further: {reason}"))

    def list_read_positions(self) -> list[Position]:
        """Where computations read the tables, whose past has to stay. Safe beside the thread that runs all else."""
        computations = [view.computation for view in self._views]
        return [each.cut.position for each in computations if each is not None]

    def close(self) -> None:
        """End what is computed now: it begins anew in the next process. Nothing can be done afterwards but `save`."""
        self._upkeep.threads.close()

    def save(self) -> None:
        """Save all indexes, so that the next process need not read the files again."""
        if self._tables:
            self._tables.save()
        for _, writer in self.store.tables.list_open():
            writer.save_index(everything=True)

    def _names(self) -> set[TableName]:
        return {name for view in self._views for name in view.tables}

    @contextmanager
    def _moving(self) -> Iterator[TableSteps]:
        """The tables, which stand at the views' last cut before and after."""
        if self._tables is None:
            self._tables = TableSteps(self.store, self._names(), self._bounds, self._hooks.check_shared)
        try:
            yield self._tables
        except BaseException:
            # the tables stand at no cut any more
            self._tables = None
            raise

    def _redefine(self, cut: Cut) -> None:
        """Take other definitions of views where a cut has other tables; their rows are then computed anew."""
        names = frozenset(cut.versions)
        if names == self._defined_for:
            return
        by_name = {view.name: view for view in self._views}
        for definition in self._hooks.define(cut):
            view = by_name.get(definition.name)
            if view is not None and view.definition != definition:
                view.redefine(definition)
                # others are read from here on
                self._tables = None
        self._defined_for = names

    def _begin_step(self, tables: TableSteps, since: Cut | None, newest: Cut) -> ViewStep:
        """Choose the cut to go to, and read the changes of all tables up to it."""
        step = ViewStep(since, newest, patience=self._bounds.wait_seconds, repairs=self._hooks.repairs.read())
        views = {view.name for view in self._views}
        if since is not None:
            tables.open(step, since, self._names())
            step.cut = tables.choose_cut(since, newest, views)
        for view in self._views:
            if not self._unfilled.is_paused(view):
                # met again where the view is brought, and then noted
                with suppress(Exception):
                    self._compile(view, tables)
        tables.take_all(step, views, self._columns_of)
        # tables that are new in this cut, or another one than before
        tables.open(step, step.cut, self._names())
        self._retry_over_others(step, tables)
        return step

    def _retry_over_others(self, step: ViewStep, tables: TableSteps) -> None:
        """Let no stopped view wait whose tables are others than at its last try: that may have been the remedy."""
        for view in self._views:
            if step.lost & {*view.tables} or view.tried != tables.describe(view.tables):
                view.retry_at = Deadline(0)

    def _columns_of(self, name: TableName) -> set[str]:
        return {c for view in self._views if view.compiled for c in view.compiled.plan.columns.get(name, ())}

    def _compile(self, view: KeptView, tables: TableSteps) -> None:
        """Compile a view if its tables are there, and have other columns than before."""
        described = tables.describe(view.tables)
        if described is not None and described != view.described:
            # nothing stays of it if a column that it reads is gone
            view.compiled, view.described = None, {}
            view.compiled = compile_view(view.definition, described)
            view.described = described

    def _gather(self, view: KeptView, step: ViewStep) -> None:
        """Gather a step's changes for a view that is computed at an older cut."""
        if view.computation is None:
            return
        if step.lost & {*view.tables} or step.failed.keys() & {*view.tables} or view.find_absent(step.cut):
            # its tables are others now: no changes lead there
            view.drop_computation()
        else:
            view.computation.include(step, self._bounds.changed_bytes)

    def _bring(self, view: KeptView, tables: TableSteps, step: ViewStep) -> None:
        """Bring one view to the step's cut; it is left out of the cut if it cannot be."""
        # one that reads what is absent is filled again once that is back
        if self._unfilled.is_paused(view) or view.find_absent(step.cut):
            return
        began, table = time.monotonic(), None

        def stop(reason: str) -> None:
            self._stop(view, step, reason, max(time.monotonic() - began, view.seconds))

        with contain_errors(f"view {view.name}", stop, self._hooks.check_shared):
            view.tried = tables.describe(view.tables)
            if failed := [f"{name}: {step.failed[name]}" for name in view.tables if name in step.failed]:
                raise PreconditionError(failed[0])
            self._compile(view, tables)
            table = self._upkeep.bring(view, tables.lookups, step)
        if table is not None:
            self._note(view, "")
            self._finish(view, table, tables, step)

    def _finish(self, view: KeptView, table: LakeTable, tables: TableSteps, step: ViewStep) -> None:
        """Add a view to the step's cut, where views over it read it."""
        step.done[view.name] = table
        step.cut = self.store.include(step.cut, table, view.shown_version)
        if any(view.name in other.tables for other in self._views):
            if view.name in tables.lookups:
                tables.take(view.name, step, self._columns_of(view.name))
            tables.open(step, step.cut, [view.name])

    def _note_delays(self, step: ViewStep) -> Cut:
        """The step's cut, which says what views show an older one, and which are computed as a whole for now."""
        views = [view for view in self._views if view.name in step.done]
        as_of = {str(view.name): view.as_of for view in views if view.as_of is not None}
        whole = {str(view.name): view.whole_reason for view in views if view.whole_reason}
        return replace(step.cut, as_of={**step.cut.as_of, **as_of}, whole={**step.cut.whole, **whole})

    def _stop(self, view: KeptView, step: ViewStep, reason: str, seconds: float) -> None:
        reason = reason.removeprefix(f"view {view.name}: ").removeprefix(f"views.{view.name}: ")
        view.drop_computation()
        view.put_off(seconds)
        tables = {name: table for each in self._views for name, table in each.described.items()}
        reason = explain_stop(reason, view.name, [each.definition for each in self._views], tables)
        self.store.stop(view.definition, step.cut.position.lsn, reason)
        self._note(view, f"is kept up no further: {reason}")

    def _note(self, view: KeptView, problem: str) -> None:
        """Say a view's problem once, and when it is over."""
        if problem != view.problem:
            line = f"view {view.name} {problem or 'goes on'}"
            self._hooks.say(WarningLine(line) if problem else line)
        view.problem = problem
