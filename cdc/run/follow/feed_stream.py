"""The stream that keeps a follower behind the lake in sync: reads new cuts, applies the changes between them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cdc.columns.feed import FedFollower, FeedBatch, FeedRows
from cdc.core.errors import HistoryLostError, UnreachableError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.core.waiting import Deadline
from cdc.run.copy.fill import TableFiller
from cdc.run.follow.step_size import FEED_BYTES, StepSize
from cdc.run.follow.streams import BatchProgress
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

CUTS_A_BATCH = 100
"""At most this many cuts with small changes are applied as one batch."""
POLL_SECONDS, RING_SECONDS = 0.2, 1.0
"""Pause between two looks for new cuts: when another process writes the lake; when this one does, and rings."""
STORE_POLL_SECONDS, STORE_RING_SECONDS = 2.0, 120.0
"""The same for a lake on an object store, where each look is a request."""
OTHER_SECONDS = 10.0
"""The longest pause in what needs no look at the lake: the next try of a table that has stopped."""


@dataclass(frozen=True, slots=True)
class FeedStreamHooks:
    """The stream's callbacks: `reached` hears of every batch and returns whether to go on; `works` of every success."""

    reached: Callable[[BatchProgress], bool]
    works: Callable[[], None]


def choose_poll_seconds(*, rings: bool, on_store: bool) -> float:
    """The pause between two looks for new cuts. `rings`: the stream of the lake is in this process."""
    if on_store:
        return STORE_RING_SECONDS if rings else STORE_POLL_SECONDS
    return RING_SECONDS if rings else POLL_SECONDS


def await_cut(recent: ChangeCache, rings: int, seconds: float, stopping: threading.Event) -> int:
    """Wait for a ring, `seconds` at most, and a second more for `stopping` at most; returns the number of rings."""
    deadline, heard = Deadline(seconds), rings
    # rings are counted: one since the last look ends the wait at once
    while heard == rings and not deadline.is_past and not stopping.is_set():
        heard = recent.wait_for_cut(rings, min(seconds, RING_SECONDS))
    return heard


class FeedStream:
    """Applies the lake's changes to one follower, cut by cut.

    Looks for new cuts every `poll_seconds`, and at once when `recent` rings: the stream of the lake, in this process,
    has then written one.
    """

    def __init__(
        self,
        follower: FedFollower,
        feed: LakeFeed,
        filler: TableFiller,
        recent: ChangeCache,
        hooks: FeedStreamHooks,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._follower = follower
        self._feed = feed
        self._filler = filler
        self._recent = recent
        self._hooks = hooks
        self._poll_seconds = poll_seconds
        self._step = StepSize(FEED_BYTES)
        self._step_bytes = 0
        """Of the cuts that were chosen; 0 where nobody has asked."""
        self._cut = filler.resume()
        self._rings = 0

    def run(self, stopping: threading.Event) -> None:
        """Go from cut to cut until `stopping` is set or `reached` says to end. Raises the failure that ends it."""
        while not stopping.is_set():
            cuts = self._feed.cuts_after(self._cut, CUTS_A_BATCH)
            if not cuts:
                self._rest(stopping)
            elif not self._apply_next(cuts):
                return

    def _rest(self, stopping: threading.Event) -> None:
        """Wait until there may be a new cut; meanwhile, fill the tables that the follower lacks."""
        deadline, rings = Deadline(self._poll_seconds), self._rings
        while self._rings == rings and not deadline.is_past and not stopping.is_set():
            self._filler.refill(self._cut)
            self._hooks.works()
            self._rings = await_cut(self._recent, rings, min(self._poll_seconds, OTHER_SECONDS), stopping)

    def _apply_next(self, cuts: Sequence[Cut]) -> bool:
        """Apply the next cut that can be read.

        If the lake has lost some changes of a table, a later cut has them in the table's new copy. Raises
        UnreachableError when not even the newest cut can be read: the lake may be about to copy the table again.
        """
        choices: Sequence[Callable[[], Cut]] = (lambda: self._choose_small(cuts), lambda: cuts[-1], self._feed.last_cut)
        # from the smallest step to the largest: a table whose changes are lost may have a new copy in a later cut
        for number, choose in enumerate(choices, 1):
            self._step_bytes = 0
            try:
                return self._apply(choose(), cuts, anew=number == len(choices))
            except HistoryLostError as error:
                lost = error
                self._feed.forget()
                # the lake may have been put back while rows of this cut were written
                self._filler.require_furthest()
        raise UnreachableError(lost.what, lost.remedy)

    def _choose_small(self, cuts: Sequence[Cut]) -> Cut:
        """The furthest of these cuts up to which the changes are small; the first one if none is.

        It is no nearer one than that of a batch which was cut off: the next batch has to reach at least as far
        (`Follower`), and steps were larger then, perhaps.
        """
        chosen, total = cuts[0], Counter[TableName]()
        if len(cuts) == 1:
            return chosen
        furthest = self._follower.furthest()
        # the first cut's tables are enough: of one that joins later, a copy is loaded and no change is read
        tables = [table for table, _ in self._feed.tables(cuts[0])]
        has_copy = False
        for before, cut in pairwise([self._cut, *cuts]):
            total.update({table.name: self._feed.change_bytes(table, before, cut) for table in tables})
            size, had_copy, has_copy = max(total.values(), default=0), has_copy, cut.ids != before.ids
            is_begun = furthest is not None and furthest.covers(cut.position)
            # a copy is loaded before the position moves. After a kill, a nearer choice would load it backwards, or have
            # readers see it beside older tables: the cut of a copy goes alone
            if cut is not cuts[0] and not is_begun and (size > self._step.most or has_copy or had_copy):
                break
            chosen, self._step_bytes = cut, size
        return chosen

    def _apply(self, until: Cut, cuts: Sequence[Cut], *, anew: bool) -> bool:
        """Bring the follower to this cut, by way of `cuts`. `anew`: copy tables again whose changes cannot be read."""
        began = time.monotonic()
        if until.ids != self._cut.ids:
            # a table was made anew under its name, and has another log
            self._feed.forget()
        tables = self._feed.tables(until)
        # before the changes: a table may have new columns, and a new table needs its index or topic
        self._follower.prepare([table for table, _ in tables])
        reach("feed.prepared")
        changes, fresh = dict[TableName, Iterable[FeedRows]](), list[tuple[Table, Bookmark]]()
        for table, bookmark in tables:
            table_changes = self._read_changes(table, until, anew=anew)
            if table_changes is None:
                fresh.append((table, bookmark))
            elif table_changes:
                changes[table.name] = table_changes
        # before the position moves: after a kill here, the old position stands and the copy is loaded again
        for table, bookmark in fresh:
            self._follower.load(table, self._feed.copy(table, until), bookmark)
        self._hand_over(changes, until)
        self._cut = until
        stages = {"apply": time.monotonic() - began}
        self._filler.report_stops(until)
        self._filler.say_remarks()
        # before `reached`: whoever waits for a position expects all tables that can be there
        self._filler.refill(until)
        self._hooks.works()
        committed = [cut.committed_ms for cut in cuts if until.position.covers(cut.position)]
        return self._hooks.reached(BatchProgress(until.position, 0, committed, stages))

    def _hand_over(self, changes: Mapping[TableName, Iterable[FeedRows]], until: Cut) -> None:
        """Have the follower apply these changes, and note how long that takes."""
        stopped, began = self._follower.stops(), time.monotonic()
        followed = {name: rows for name, rows in changes.items() if name not in stopped}
        self._follower.apply(FeedBatch(followed, until.committed_ms), until.position)
        self._step.note(self._step_bytes, time.monotonic() - began)

    def _read_changes(self, table: Table, until: Cut, *, anew: bool) -> Iterable[FeedRows] | None:
        """The changes of a table up to this cut; None when it has to be copied: the follower has another table."""
        name = str(table.name)
        before = self._cut.versions.get(name)
        # a lower version of the same table: it was put back
        if before is None or not until.has_same_table(name, self._cut) or before > until.versions[name]:
            return None
        try:
            return self._feed.changes(table, self._cut, until)
        except HistoryLostError:
            if anew:
                return None
            raise
