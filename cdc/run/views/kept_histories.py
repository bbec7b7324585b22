"""The pipeline's histories as verbs see them: those that have stopped, and views that read what has ended."""

from collections.abc import Iterator

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.views.view_definitions import define_views
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.shape import find_tracked
from cdc.views.statement.final_windows import list_read_tables


def describe_stopped_histories(pipeline: Pipeline) -> list[PreconditionError]:
    """One line for each history that is kept no further."""
    lake = pipeline.lake_follower
    stops = lake.histories.stops(lake.tables.all()) if pipeline.settings.histories else []
    return [PreconditionError(str(stop), stop.remedy) for stop in stops]


def describe_history_problems(pipeline: Pipeline) -> list[PreconditionError]:
    """The same, and one line for each view that reads an epoch which has ended, and not the present one."""
    return [*describe_stopped_histories(pipeline), *_find_ended(pipeline)]


def _find_ended(pipeline: Pipeline) -> Iterator[PreconditionError]:
    cut = pipeline.lake_follower.cuts.last()
    for view in define_views(pipeline, cut) if pipeline.settings.histories else ():
        read = list_read_tables(view)
        of = {tracked for name in read if (tracked := find_tracked(name, pipeline.settings.histories))}
        for tracked in sorted(of):
            names = [epoch.name for epoch in list_epochs(pipeline.lake, tracked, cut)]
            if names and not _reads(read, names[-1]):
                yield PreconditionError(
                    f"view {view.name} reads an ended part of the history of {tracked}, which goes on in {names[-1]}",
                    "read that one, too (UNION ALL), or instead",
                )


def _reads(read: list[TableName], name: TableName) -> bool:
    return str(name).casefold() in {str(each).casefold() for each in read}
