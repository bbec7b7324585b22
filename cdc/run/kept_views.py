"""The pipeline's views as verbs see them: opened from the settings, and described."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.pipeline import view_store
from sinks.lake.feed.change_cache import ChangeCache
from views.keeper import KeptView, ViewKeeper
from views.order import sort_views


def open_keeper(
    settings: PipelineSettings, spark: SparkSession, recent: ChangeCache, say: Callable[[str], None]
) -> ViewKeeper:
    """The keeper of the pipeline's views, with nothing open yet."""
    kept = [
        KeptView(view, tables, settings.views[str(view.name)].whole_seconds)
        for view, tables in sort_views(settings.view_definitions).items()
    ]
    return ViewKeeper(spark, view_store(settings), kept, recent, say)


def find_unfilled_views(settings: PipelineSettings) -> list[TableName]:
    """The views that are in no cut as they are defined now, without stopped ones."""
    if not settings.views:
        return []
    store = view_store(settings)
    cut = store.cuts.last()
    return [
        view.name
        for view in settings.view_definitions
        if store.find_in(cut, view) is None and store.find_stop(view) is None
    ]


def describe_stopped_views(settings: PipelineSettings) -> list[PreconditionError]:
    """One line for each view that is kept up no further."""
    if not settings.views:
        return []
    store = view_store(settings)
    stops = {view.name: store.find_stop(view) for view in settings.view_definitions}
    return [
        PreconditionError(
            f"view {name} is kept up no further: {stop.reason}",
            "correct its sql or its key in cdc.yaml, or the rows; `cdc follow` tries again by itself",
        )
        for name, stop in stops.items()
        if stop
    ]
