"""Views that wait for a table which no cut has, and will not have by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.core.table_state import Followed, Joining, TableState
from cdc.run.pipeline import Pipeline
from cdc.run.views.view_definitions import define_present_views
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.shape import find_tracked
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.order import split_readable
from cdc.views.statement.final_windows import list_read_tables


def describe_waiting_views(pipeline: Pipeline, cut: Cut) -> list[PreconditionError]:
    """One line for each view that reads what this cut lacks; none where the next cut of `cdc follow` will have it."""
    there = {*cut.versions, *pipeline.settings.views}
    absent = {
        view.name: [name for name in list_read_tables(view) if str(name) not in there]
        for view in split_readable(define_present_views(pipeline))[0]
    }
    if not any(absent.values()):
        return []
    lake = pipeline.lake_follower
    stopped = {stop.tracked for stop in lake.histories.stops(lake.tables.all())}
    look = _Look(pipeline, cut, lake.tables.states(), stopped)
    told = {view: next(look.describe(names), None) for view, names in absent.items()}
    return [PreconditionError(f"view {view} waits for {why[0]}", why[1]) for view, why in told.items() if why]


@dataclass(frozen=True, slots=True)
class _Look:
    """What the lake has; `stopped`: the tables whose histories are kept no further."""

    pipeline: Pipeline
    cut: Cut
    states: Mapping[TableName, TableState]
    stopped: set[TableName]

    def describe(self, names: list[TableName]) -> Iterator[tuple[str, str]]:
        """What is waited for, and what helps, of those names that do not come by themselves."""
        for name in names:
            of = find_tracked(name, self.pipeline.settings.histories) or name
            state = self.states.get(of)
            if isinstance(state, Joining) or (isinstance(state, Followed) and self._is_to_begin(of, name)):
                continue
            if state is None or (isinstance(state, Followed) and of not in self.stopped):
                yield f"{name}, which is in no cut", "name it in source.tables, or correct the view's sql"
            else:
                yield (
                    f"{name}, which has no copy or has stopped",
                    "it goes on with that: see `cdc status`",
                )

    def _is_to_begin(self, of: TableName, history: TableName) -> bool:
        """Does a history lack its first row only?"""
        if of == history or of in self.stopped:
            return False
        return not list_epochs(self.pipeline.lake, of, self.cut)
