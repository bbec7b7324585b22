"""The views that a cut lacks: those that can be filled, and what the others wait for."""

from collections.abc import Sequence

from cdc.core.table import TableName
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.store import ViewStore
from cdc.views.upkeep.kept_view import KeptView


class UnfilledViews:
    """Those of these views that are in no cut. `views`: each after those that it reads."""

    def __init__(self, store: ViewStore, views: Sequence[KeptView]) -> None:
        self._store = store
        self._views = views

    def list_fillable(self, cut: Cut | None) -> list[KeptView]:
        """The views that a cut lacks and that can be filled at it."""
        return [view for view in self._list_lacking(cut) if cut and not view.find_absent(cut)]

    def find_waiting(self, cut: Cut | None) -> list[tuple[KeptView, TableName]]:
        """The others that are not stopped, each with what it reads that no fill brings."""
        waiting = [(view, view.find_absent(cut)) for view in self._list_lacking(cut)] if cut else []
        return [(view, absent) for view, absent in waiting if cut and absent and not self._is_coming(absent, cut)]

    def _list_lacking(self, cut: Cut | None) -> list[KeptView]:
        return [view for view in self._views if cut and str(view.name) not in cut.versions and not self.is_paused(view)]

    def is_paused(self, view: KeptView) -> bool:
        """Whether it has stopped, and is not tried again yet."""
        # the deadline first: it costs no look at the lake
        return not view.retry_at.is_past and self._store.find_stop(view.definition) is not None

    def _is_coming(self, name: TableName, cut: Cut) -> bool:
        """Whether an absent table is a view that is filled, as those that it reads."""
        view = next((each for each in self._views if each.name == name), None)
        if view is None or self.is_paused(view):
            return False
        absent = view.find_absent(cut)
        return absent is None or self._is_coming(absent, cut)
