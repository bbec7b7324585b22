"""The pipeline's views as verbs see them: opened from the pipeline, and described."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.repair_requests import ViewRequests
from cdc.run.spark.errors import check_spark
from cdc.run.views.view_definitions import define_present_views, define_views
from cdc.run.views.waiting_views import describe_waiting_views
from cdc.sinks.lake import layout
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.explanation import Explanation, explain
from cdc.views.order import sort_readable, sort_views
from cdc.views.store import ViewStore
from cdc.views.upkeep.keeper import KeeperHooks, ViewKeeper
from cdc.views.upkeep.kept_view import KeptView


def open_keeper(
    pipeline: Pipeline,
    recent: ChangeCache,
    say: Callable[[str], None],
    *,
    is_patient: bool = True,
) -> ViewKeeper:
    """The keeper of the pipeline's views, with nothing open yet.

    `is_patient`: whole views may show an older cut; otherwise they are computed at every one.
    """
    define = partial(define_views, pipeline)
    ordered, refused = sort_readable(define(pipeline.table_cuts.last()))
    kept = [
        KeptView(view, tables, pipeline.settings.views[str(view.name)].whole_seconds if is_patient else 0.0)
        for view, tables in ordered.items()
    ]
    hooks = KeeperHooks(say, recent, check_spark, define, ViewRequests(pipeline.repair_requests))
    keeper = ViewKeeper(pipeline.spark, pipeline.views, kept, hooks)
    for view, reason in refused.items():
        keeper.refuse(view, reason)
    return keeper


def find_unfilled_views(pipeline: Pipeline) -> list[TableName]:
    """The views that are in no cut as they are defined now, without stopped ones."""
    if not pipeline.settings.views:
        return []
    store = pipeline.views
    cut = store.cuts.last()
    return [
        view.name
        for view in define_present_views(pipeline)
        if store.find_in(cut, view) is None and store.find_stop(view) is None
    ]


def find_views_over(pipeline: Pipeline, tables: Collection[TableName]) -> list[TableName]:
    """The views that read these tables, also by way of other views."""
    found = {*tables}
    for view, read in sort_readable(define_present_views(pipeline))[0].items():
        found |= {view.name} if found & {*read} else set()
    return sorted(found - {*tables})


def describe_stopped_views(pipeline: Pipeline, but_for: Collection[TableName] = ()) -> list[PreconditionError]:
    """One line for each view that is kept up no further, and for each that waits for a table that nobody follows.

    `but_for`: views of which it is not known yet, since what they read has just been copied again.
    """
    if not pipeline.settings.views:
        return []
    store = pipeline.views
    views = [view for view in define_present_views(pipeline) if view.name not in but_for]
    stops = {view.name: store.find_stop(view) for view in views}
    stopped = [
        PreconditionError(
            f"view {name} is kept up no further: {stop.reason}",
            "correct its sql or its key in cdc.yaml, or the rows; `cdc follow` tries again by itself",
        )
        for name, stop in stops.items()
        if stop
    ]
    cut = store.table_cuts.last()
    return stopped + (describe_waiting_views(pipeline, cut) if cut else [])


@dataclass(frozen=True, slots=True)
class ViewDescription:
    """A view as it stands. `state`: kept up, by keys or as a whole, not filled, stopped, or waiting. `rows`: in its
    last cut. `problem`: why it is stopped, or as a whole though it could go by keys.

    `lsn`: of the cut that it shows.
    """

    name: TableName
    state: str
    rows: int | None = None
    lsn: Lsn | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        lsn = format_lsn(self.lsn) if self.lsn is not None else None
        return {"view": str(self.name), "state": self.state, "rows": self.rows, "lsn": lsn, "problem": self.problem}


def describe_views(pipeline: Pipeline) -> list[ViewDescription]:
    """The views in the file's order."""
    if not pipeline.settings.views:
        return []
    store = pipeline.views
    cut = store.cuts.last()
    return [_describe(store, cut, view) for view in define_present_views(pipeline)]


def _describe(store: ViewStore, cut: Cut | None, view: ViewDefinition) -> ViewDescription:
    stop = store.find_stop(view)
    if stop:
        return ViewDescription(view.name, "stopped", problem=stop.reason, lsn=Lsn(stop.lsn))
    table = store.find(view)
    if table is None:
        return ViewDescription(view.name, "not filled yet")
    if cut is None or not table.is_in(cut):
        return ViewDescription(view.name, "waits for the next cut", table.writer.snapshot.live_rows)
    shown, reason = store.shown_cut(cut, view.name), cut.whole.get(str(view.name))
    state = "kept up as a whole" if reason else "kept up"
    return ViewDescription(view.name, state, table.writer.snapshot.live_rows, shown.position.lsn, reason)


def explain_view(pipeline: Pipeline, name: str) -> Explanation:
    """How changes of each table reach a view, by the tables as the lake has them.

    Raises ConfigurationError for a name that is no view's, PreconditionError while the lake lacks a table.
    """
    return explain(compile_present_view(pipeline, name))


def compile_present_view(pipeline: Pipeline, name: str) -> CompiledView:
    """A view's statement, read over the tables as the lake has them. Raises like `explain_view`."""
    view = find_view(pipeline, name)
    lake, tables = pipeline.lake, dict[TableName, Table]()
    for table in sort_views([view])[view]:
        opened = layout.open_table(lake, table)
        if opened is None:
            raise PreconditionError(f"the lake has no copy of {table} yet", "run `cdc bootstrap` first")
        tables[table] = opened[1]
    return compile_view(view, tables)


def find_whole_reason(pipeline: Pipeline, name: str) -> str | None:
    """Why a view that goes by keys is computed as a whole at present; None if it is not."""
    cut = pipeline.views.cuts.last()
    return cut.whole.get(name) if cut else None


def find_view(pipeline: Pipeline, name: str) -> ViewDefinition:
    """The view of this name as it is computed now; raises ConfigurationError when there is none."""
    wanted = TableName.parse(name)
    view = next((view for view in define_present_views(pipeline) if view.name == wanted), None)
    if view is None:
        known = ", ".join(pipeline.settings.views) or "none"
        raise ConfigurationError(f"there is no view {wanted}", f"cdc.yaml has {known}")
    return view
