"""The pipeline's histories as verbs see them: those that have stopped, and views that read what has ended."""

from collections.abc import Iterator
from typing import Final

from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.pipeline import lake_of
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.shape import find_tracked
from cdc.views.statement.final_windows import LATE, list_read_tables

CLOSED: Final = (
    "its windows end there: leave final_after out, and it reads the table as it is, or write a view over both parts"
)
"""The remedy for a view with `final_after`: it reads the first epoch only, since rows of two need not fit together."""


def describe_stopped_histories(settings: PipelineSettings, lake: DeltaFollower) -> list[PreconditionError]:
    """One line for each history that is kept no further."""
    stops = lake.histories.stops(lake.tables.all()) if settings.histories else []
    return [PreconditionError(str(stop), stop.remedy) for stop in stops]


def describe_history_problems(settings: PipelineSettings, lake: DeltaFollower) -> list[PreconditionError]:
    """The same, and one line for each view that reads an epoch which has ended, and not the present one."""
    return [*describe_stopped_histories(settings, lake), *_find_ended(settings, lake)]


def _find_ended(settings: PipelineSettings, lake: DeltaFollower) -> Iterator[PreconditionError]:
    cut = lake.cuts.last()
    late = {f"{view.name}{LATE}" for view in settings.view_definitions if view.final_after}
    # what came too late for a view is told with that view
    for view in (each for each in settings.view_definitions if str(each.name) not in late):
        read = list_read_tables(view)
        of = {tracked for name in read if (tracked := find_tracked(name, settings.histories))}
        for tracked in sorted(of):
            names = [epoch.name for epoch in list_epochs(lake_of(settings), tracked, cut)]
            if names and not _reads(read, names[-1]):
                what = f"view {view.name} reads an ended part of the history of {tracked}, which goes on in {names[-1]}"
                yield PreconditionError(
                    what, CLOSED if view.final_after else "read that one, too (UNION ALL), or instead"
                )


def _reads(read: list[TableName], name: TableName) -> bool:
    return str(name).casefold() in {str(each).casefold() for each in read}
