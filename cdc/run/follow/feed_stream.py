"""The stream that keeps a follower behind the lake in sync: cuts come in, what their commits changed is applied."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cdc.columns.feed import FedFollower, FeedBatch, FeedRows
from cdc.core.errors import HistoryLostError, UnreachableError
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.run.copy.fill import TableFiller
from cdc.run.follow.lake_stream import BatchProgress
from sinks.lake.feed.change_cache import ChangeCache
from sinks.lake.feed.feed import LakeFeed
from sinks.lake.metadata.cuts import Cut

CUTS_A_BATCH = 100
"""So many cuts are applied as one, where what they changed is small."""
TOGETHER_BYTES = 64 * 1024 * 1024
"""Changes of one table up to this size, as the lake packs them, are small."""
POLL_SECONDS, RING_SECONDS = 0.2, 1.0
"""How often the lake is asked for cuts: where another process writes it, and where this one does, and rings."""


@dataclass(frozen=True, slots=True)
class FeedStreamHooks:
    """Who hears of a stream: `reached` of every batch, and answers whether to go on; `well` as long as all is well."""

    reached: Callable[[BatchProgress], bool]
    well: Callable[[], None]


class FeedStream:
    """Applies cut by cut to one follower behind the lake, which is asked for cuts every `poll_seconds`.

    `recent` rings when this process makes one.
    """

    def __init__(
        self,
        follower: FedFollower,
        feed: LakeFeed,
        filler: TableFiller,
        recent: ChangeCache,
        heard: FeedStreamHooks,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._follower = follower
        self._feed = feed
        self._filler = filler
        self._recent = recent
        self._heard = heard
        self._poll_seconds = poll_seconds
        self._cut = filler.resume()

    def run(self, stopping: threading.Event) -> None:
        """Go on from cut to cut until `stopping` is set, or somebody has seen enough; raises what ends it."""
        heard = 0
        while not stopping.is_set():
            cuts = self._feed.cuts_after(self._cut, CUTS_A_BATCH)
            if not cuts:
                self._filler.keep_whole(self._cut)
                self._heard.well()
                # the bell is counted: a cut that came after the question does not wait for the next one
                heard = self._recent.wait_for_cut(heard, self._poll_seconds)
            elif not self._go_on(cuts):
                return

    def _go_on(self, cuts: Sequence[Cut]) -> bool:
        """Apply the next cut that can be read: what the lake has lost of a table is in its copy as of a later one.

        Raises UnreachableError where not even the newest can be: the lake may be about to copy such a table again.
        """
        nexts: Sequence[Callable[[], Cut]] = (lambda: self._far_enough(cuts), lambda: cuts[-1], self._feed.last_cut)
        for number, choose in enumerate(nexts, 1):
            try:
                return self._apply(choose(), anew=number == len(nexts))
            except HistoryLostError as error:
                lost = error
                self._feed.forget()
        raise UnreachableError(lost.what, lost.remedy)

    def _far_enough(self, cuts: Sequence[Cut]) -> Cut:
        """The furthest of these cuts up to which the changes are small; the first, where not even those are."""
        # those of the first cut stand for all: of a table that joins later, a copy is loaded, and no change read
        tables = [table for table, _ in self._feed.tables(cuts[0])]
        while len(cuts) > 1 and self._feed.change_bytes(tables, self._cut, cuts[-1]) > TOGETHER_BYTES:
            cuts = cuts[: len(cuts) // 2]
        return cuts[-1]

    def _apply(self, until: Cut, *, anew: bool) -> bool:
        """Bring the follower to this cut; `anew`: tables whose changes cannot be read are given their copies again."""
        if until.ids != self._cut.ids:
            # a table was made anew under its name: its log is another one
            self._feed.forget()
        tables = self._feed.tables(until)
        self._follower.prepare([table for table, _ in tables])
        changes, fresh = dict[TableName, Iterable[FeedRows]](), list[tuple[Table, Bookmark]]()
        for table, bookmark in tables:
            found = self._changes(table, until, anew=anew)
            if found is None:
                fresh.append((table, bookmark))
            elif found:
                changes[table.name] = found
        # before the position moves: whoever is killed here stands where it was, and is given the copy again
        for table, bookmark in fresh:
            self._follower.load(table, self._feed.copy(table, until), bookmark)
        stopped = self._follower.stops()
        going = {name: found for name, found in changes.items() if name not in stopped}
        self._follower.apply(FeedBatch(going), until.position)
        self._cut = until
        self._filler.tell(until)
        # before it is told: who waits for a position waits for all tables that can be there
        self._filler.keep_whole(until)
        self._heard.well()
        return self._heard.reached(BatchProgress(until.position, 0))

    def _changes(self, table: Table, until: Cut, *, anew: bool) -> Iterable[FeedRows] | None:
        """What changed in a table; None where it is not the one that the follower has, and has to be copied."""
        name = str(table.name)
        before = self._cut.versions.get(name)
        # versions only grow: a lower one is another table as well, where the cuts have no ids to tell by
        if before is None or not until.has_same_table(name, self._cut) or before > until.versions[name]:
            return None
        try:
            return self._feed.changes(table, self._cut, until)
        except HistoryLostError:
            if anew:
                return None
            raise
