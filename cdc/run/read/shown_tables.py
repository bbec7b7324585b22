"""The tables that a follower does not show as of its position: those that have stopped, or are copied again.

Its position goes on without them, and their readers see older rows, or none. Who waits for an own write waits for its
table, too.
"""

from collections.abc import Collection

from cdc.columns.feed import FedFollower
from cdc.config.settings import VIEWS
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.metadata.cuts import Cut

REMEDY = "see `cdc status`; who reads other tables names those"


class ShownTables:
    """What readers of one follower see.

    `fed`: itself, if the lake feeds it. `only`: the tables and views that are asked for; all of the follower's if it is
    empty. Raises ConfigurationError for one that the follower does not hold.
    """

    def __init__(
        self, pipeline: Pipeline, follower: str, fed: FedFollower | None, only: Collection[TableName] = ()
    ) -> None:
        self._pipeline, self._follower = pipeline, follower
        self._lake, self._views = pipeline.lake_follower, pipeline.views
        self._fed = fed
        self._reads_views = follower == VIEWS or bool(self._fed and pipeline.settings.holds_views(follower))
        self._only = frozenset(only)
        if unknown := sorted(self._only - set(self._list_held())):
            raise ConfigurationError(f"{follower} does not hold {unknown[0]}", "see `cdc status`")

    def find_hidden(self, position: Position, wanted: Lsn) -> list[TableName]:
        """The tables of which readers do not see everything up to an LSN that the follower's position has reached."""
        cuts = self._views.cuts if self._reads_views else self._lake.cuts
        cuts.invalidate()
        cut = cuts.find(position.end_offset)
        held, stops = self._list_held(), self._fed.stops() if self._fed else {}
        # a cut that the lake no longer has tells nothing: the follower's next position is waited for
        return [name for name in held if cut is None or name in stops or not self._is_in(name, cut, wanted)]

    def check_stops(self, hidden: Collection[TableName]) -> None:
        """Raise PreconditionError if one of these tables has stopped, and nobody copies it again by himself."""
        reasons = {name: stop.what for name, stop in (self._fed.stops() if self._fed else {}).items()}
        self._lake.tables.look_again(())
        stops = self._lake.tables.stops()
        reasons |= {stop.name: str(stop) for stop in stops if not stop.copy}
        for name in hidden:
            if name in reasons:
                raise PreconditionError(f"{self._follower} does not show {name} now: {reasons[name]}", REMEDY)

    def _is_in(self, name: TableName, cut: Cut, wanted: Lsn) -> bool:
        # a follower that reached the cut before the view joined it takes the view with the next one
        if str(name) not in cut.versions or (self._fed and str(name) in cut.joined):
            return False
        # a view that is computed as a whole shows an older cut for a while
        return self._views.shown_cut(cut, name).position.lsn >= wanted

    def _list_held(self) -> list[TableName]:
        pipeline, follower = self._pipeline, self._follower
        views = [TableName.parse(name) for name in pipeline.settings.views] if self._reads_views else []
        tables = self._lake.tables.list_names() if follower != VIEWS else []
        held = [name for name in (*tables, *views) if self._fed is None or pipeline.settings.holds(follower, name)]
        return [name for name in held if name in self._only] if self._only else held
