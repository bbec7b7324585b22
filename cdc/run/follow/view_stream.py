"""The stream that keeps the views up: brings them to the newest cut of the tables, whenever there is one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cdc.core.waiting import Deadline
from cdc.run.follow.feed_stream import OTHER_SECONDS, FeedStreamHooks, await_cut
from cdc.run.follow.maintenance import ReadPositions, run_maintenance
from cdc.run.follow.streams import BatchProgress
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.maintenance import LakeMaintenance
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.views.upkeep.keeper import ViewKeeper

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ViewStream:
    """Brings the views from cut to cut.

    Looks for a new one every `poll_seconds`, and at once when `recent` rings: the stream of the lake, in this process,
    has then written one, or a view is computed that is to be shown.
    """

    keeper: ViewKeeper
    cuts: Cuts
    recent: ChangeCache
    hooks: FeedStreamHooks
    poll_seconds: float

    def run(self, stopping: threading.Event) -> None:
        """Go on until `stopping` is set or `reached` says to end. Raises the failure that ends it."""
        rings, last, told, committed = 0, None, None, 0
        try:
            while not stopping.is_set():
                cut = self.cuts.last()
                if cut is not None and (last is None or not last.position.covers(cut.position)):
                    last, committed = self.keeper.advance(cut), cut.committed_ms
                # beside each other: the views that are filled go on meanwhile
                has_filled = last is not None and self.keeper.fill_next()
                self.hooks.works()
                if last is not None and not has_filled and last.position != told and not self.keeper.is_filling:
                    told = last.position
                    if not self.hooks.reached(BatchProgress(told, 0, [committed])):
                        return
                elif not has_filled and (cut is None or last is None or last.position.covers(cut.position)):
                    rings = self._rest(rings, stopping)
        finally:
            self.keeper.close()
            self.keeper.save()

    def _rest(self, rings: int, stopping: threading.Event) -> int:
        """Wait until there may be a new cut, or a view was filled; returns the number of rings."""
        deadline, heard = Deadline(self.poll_seconds), rings
        while heard == rings and not deadline.is_past and not stopping.is_set():
            heard = await_cut(self.recent, rings, min(self.poll_seconds, OTHER_SECONDS), stopping)
            # one that was stopped is tried again
            if heard == rings and self.keeper.fill_next():
                break
        return heard


@contextmanager
def maintain_views(pipeline: Pipeline, keeper: ViewKeeper, read: ReadPositions, say: Say) -> Iterator[None]:
    """Compact and vacuum the views beside their stream. `read`: the positions of the followers that hold views."""
    store = keeper.store
    maintenance = LakeMaintenance([store.tables], store.cuts, None, pipeline.settings.delta[1].retention_hours)
    with run_maintenance(maintenance, read, say):
        yield
