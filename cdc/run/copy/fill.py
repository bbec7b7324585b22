"""Copies tables from the lake into the followers behind it: all at first, later the missing and the stopped ones."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from cdc.columns.feed import FedFollower, FeedBatch
from cdc.core.errors import TableStoppedError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.core.text.lines import WarningLine
from cdc.core.waiting import Deadline
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

RETRY_SECONDS = 30.0
"""Least pause before a stopped table is copied again: somebody may have repaired the cause."""
BACKOFF_FACTOR = 10
"""The pause is this many times the duration of the last copy, which may have filled a large index."""
LOOK_SECONDS = 30.0
"""Pause between two looks at whether a follower still has all of its tables."""
OpenBar = Callable[[TableName, int], AbstractContextManager[None]]
"""Opens a progress bar for a table of so many rows."""


class TableFiller:
    """Copies tables from the lake into one follower, and says which are stopped in it: once per table and reason."""

    def __init__(
        self,
        name: str,
        follower: FedFollower,
        feed: LakeFeed,
        say: Callable[[str], None],
        open_bar: OpenBar = lambda name, rows: nullcontext(),
    ) -> None:
        self._name = name
        self._follower = follower
        self._feed = feed
        self._say = say
        self._open_bar = open_bar
        self._reported: dict[TableName, TableStoppedError] = {}
        self._paused_until: dict[TableName, float] = {}
        self._next_look = Deadline(0)

    def resume(self) -> Cut:
        """Copy the tables that the follower lacks at its position; returns the cut there.

        A new follower gets all tables of the newest cut. Views that joined the cut are copied again: it may have what
        had their names before. Tables that the lake has lost are left out of the returned cut; a later one has them
        again. Raises HistoryLostError when the lake has no cut at the position.
        """
        position = self._follower.position()
        if position is None:
            return self._load_all()
        cut = self._feed.require_cut(position)
        self.require_furthest()
        self._feed.admit([*self._follower.bookmarks(), *self._follower.stops()])
        has = [name for name in self._follower.bookmarks() if str(name) not in cut.joined]
        tables, unread = self._feed.split_readable(cut, but=has)
        due = self._select_due([table.name for table, _ in tables])
        self._load(cut, [(table, bookmark) for table, bookmark in tables if table.name in due])
        return cut.without(unread)

    def require_furthest(self) -> None:
        """Raise HistoryLostError when the lake has no cut where a batch of the follower was cut off."""
        if furthest := self._follower.furthest():
            self._feed.require_cut(furthest)

    def refill(self, cut: Cut) -> None:
        """Copy lost tables again, and stopped ones whose pause is over, as of the follower's cut."""
        names = self._select_due(self._reported)
        if self._next_look.is_past:
            self._next_look = Deadline(LOOK_SECONDS)
            names |= self._select_due(find_missing_at(self._follower, self._feed, cut))
        for name in names - self._reported.keys():
            self._say(WarningLine(f"{self._name}: {name} is gone, and copied again from the lake"))
        if names:
            # also names that are no longer in the cut
            self._paused_until |= dict.fromkeys(names, time.monotonic() + RETRY_SECONDS)
            self._load(cut, select_readable(self._feed, cut, names))

    def report_stops(self, cut: Cut) -> None:
        """Say which tables of a cut were stopped since the last call, and which go on. Called after a batch or copy."""
        stopped = self._follower.stops()
        for name, stop in stopped.items():
            # not of tables that the lake does not have now, or that this follower leaves out
            if str(name) not in cut.versions or not self._feed.has_table(name):
                continue
            if name not in self._reported or self._reported[name].what != stop.what:
                self._say(WarningLine(f"{self._name}: {stop.what}; its other tables go on → {stop.remedy}"))
                # a lost table is copied at once; one that was just tried has its pause already
                until = max(time.monotonic() + RETRY_SECONDS, self._paused_until.get(name, 0.0))
                self._paused_until[name] = 0.0 if stop.is_lost else until
                self._reported[name] = stop
        for name in self._reported.keys() - stopped.keys():
            self._say(f"{self._name}: {name} goes on, copied again from the lake")
            del self._reported[name]
            self._paused_until.pop(name, None)

    def say_remarks(self) -> None:
        """Say what the follower could not take, though no table stops. Called after a batch."""
        for remark in self._follower.remarks():
            self._say(WarningLine(f"{self._name}: {remark}"))

    def _select_due(self, names: Collection[TableName]) -> set[TableName]:
        now = time.monotonic()
        return {name for name in names if self._paused_until.get(name, 0.0) <= now}

    def _load_all(self) -> Cut:
        """Copy all tables of the newest cut, and set the follower's position to it.

        Also tables that it already has: a crash may have left those of an older cut.
        """
        # the newest cut, not the lake's newest versions: only at a cut do the tables belong together
        cut = self._feed.last_cut()
        tables, unread = self._feed.split_readable(cut)
        self._load(cut, tables)
        reach("fill.whole")
        # an empty batch sets the position; without one, the next start copies everything again
        self._follower.apply(FeedBatch({}, cut.committed_ms), cut.position)
        self.say_remarks()
        return cut.without(unread)

    def _load(self, cut: Cut, tables: Sequence[tuple[Table, Bookmark]]) -> None:
        self._follower.prepare([table for table, _ in tables])
        reach("fill.prepared")
        for table, bookmark in tables:
            copy, began = self._feed.copy(table, cut), time.monotonic()
            with self._open_bar(table.name, copy.row_count):
                self._follower.load(table, copy, bookmark)
                reach("fill.loaded")
            self._paused_until[table.name] = time.monotonic() + max(
                RETRY_SECONDS, BACKOFF_FACTOR * (time.monotonic() - began)
            )
        if tables:
            self.report_stops(cut)
            self.say_remarks()


def find_missing_tables(follower: FedFollower, feed: LakeFeed) -> list[TableName]:
    """The tables that a follower should have at its position (a new one: at the newest cut), and lacks."""
    position = follower.position()
    cut = feed.find_cut(position) if position and not has_followed_another_lake(follower, feed) else None
    return (
        find_missing_at(follower, feed, cut)
        if cut
        else [table.name for table, _ in feed.split_readable(feed.last_cut())[0]]
    )


def find_missing_at(follower: FedFollower, feed: LakeFeed, cut: Cut) -> list[TableName]:
    """The tables of a cut that a follower should have, and lacks."""
    has = follower.bookmarks()
    # by name first: reading the lake is only worth it when something is missing
    names = {name for name in map(TableName.parse, cut.versions) if feed.has_table(name)} - has.keys()
    return [table.name for table, _ in select_readable(feed, cut, names)] if names else []


def select_readable(feed: LakeFeed, cut: Cut, names: Collection[TableName]) -> list[tuple[Table, Bookmark]]:
    """The tables of a cut with these names, without those that cannot be read; each with its bookmark."""
    return feed.split_readable(cut, but={*map(TableName.parse, cut.versions)} - set(names))[0]


def has_followed_another_lake(follower: FedFollower, feed: LakeFeed) -> bool:
    """Does this lake have no cut at the follower's position, from which changes lead on, or where a batch of it was cut
    off? Some of that batch's rows may be in no cut of this lake."""
    reached = filter(None, (follower.position(), follower.furthest()))
    return any(feed.find_cut(position) is None for position in reached)
