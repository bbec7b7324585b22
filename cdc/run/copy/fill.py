"""Fills followers behind the lake: all tables at first, later what they lack, and again what was stopped."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from cdc.columns.feed import FedFollower, FeedBatch
from cdc.core.errors import TableStoppedError
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from sinks.lake.feed.feed import LakeFeed
from sinks.lake.metadata.cuts import Cut

RETRY_SECONDS = 30.0
"""Until a table that a follower cannot hold is copied again: somebody may have mended the cause."""
REST = 10
"""So many times as long as a try took, if that is longer, is waited for the next: it may have filled a large index."""
LOOK_SECONDS = 30.0
"""Between two looks at whether a follower still has all of its tables."""
Watch = Callable[[TableName, int], AbstractContextManager[None]]


def _without_bar(name: TableName, rows: int) -> AbstractContextManager[None]:
    return nullcontext()


class TableFiller:
    """Copies tables from the lake into one follower, and says which are stopped in it, each once a reason.

    `watch` is given every table with its rows, for as long as its copy takes.
    """

    def __init__(
        self,
        name: str,
        follower: FedFollower,
        feed: LakeFeed,
        say: Callable[[str], None],
        watch: Watch = _without_bar,
    ) -> None:
        self._name = name
        self._follower = follower
        self._feed = feed
        self._say = say
        self._watch = watch
        self._said: dict[TableName, TableStoppedError] = {}
        self._rest_until: dict[TableName, float] = {}
        self._next_look = 0.0

    def resume(self) -> Cut:
        """The cut that the follower stands at; what it lacks of that, it is given first: all, or later what was lost.
        Tables that the lake has lost are not in the cut that this gives: a later one has them again.

        Raises HistoryLostError where the lake has no such cut.
        """
        position = self._follower.position()
        if position is None:
            return self._first_load()
        cut = self._feed.require_cut(position)
        self._feed.admit([*self._follower.bookmarks(), *self._follower.stops()])
        tables, unread = self._feed.split_readable(cut, but=self._follower.bookmarks())
        due = self._due([table.name for table, _ in tables])
        self._load(cut, [each for each in tables if each[0].name in due])
        return cut.without(unread)

    def keep_whole(self, cut: Cut) -> None:
        """Copy again, as at the cut where the follower stands, what it has lost, and what was stopped for a while."""
        names = self._due(self._said)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            names |= self._due(find_missing_at(self._follower, self._feed, cut))
        for name in names - self._said.keys():
            self._say(f"{self._name}: {name} is gone, and copied again from the lake")
        if names:
            # also those that the cut has no more
            self._rest_until |= dict.fromkeys(names, time.monotonic() + RETRY_SECONDS)
            self._load(cut, select_readable(self._feed, cut, names))

    def tell(self, cut: Cut) -> None:
        """Say which of a cut's tables were stopped since the last call, and which go on: after a batch, or a copy."""
        stopped = self._follower.stops()
        for name, stop in stopped.items():
            # one that the lake has not now, or that is left out here, is nobody's matter
            if str(name) not in cut.versions or not self._feed.has_table(name):
                continue
            if name not in self._said or self._said[name].what != stop.what:
                self._say(f"{self._name}: {stop.what}; its other tables go on → {stop.remedy}")
                # what is lost is copied at once; what was tried a moment ago rests already
                rested = max(time.monotonic() + RETRY_SECONDS, self._rest_until.get(name, 0.0))
                self._rest_until[name] = 0.0 if stop.is_lost else rested
                self._said[name] = stop
        for name in self._said.keys() - stopped.keys():
            self._say(f"{self._name}: {name} goes on, copied again from the lake")
            del self._said[name]
            self._rest_until.pop(name, None)

    def _due(self, names: Collection[TableName]) -> set[TableName]:
        now = time.monotonic()
        return {name for name in names if self._rest_until.get(name, 0.0) <= now}

    def _first_load(self) -> Cut:
        """Fill the follower from the lake as it stands at its newest cut, and put it there.

        Without a position every table is copied, also one that has been: it may have been at an older cut, before a
        crash.
        """
        cut = self._feed.last_cut()
        tables, unread = self._feed.split_readable(cut)
        self._load(cut, tables)
        # a batch of nothing, for its position: without one, the next start fills everything again
        self._follower.apply(FeedBatch({}), cut.position)
        return cut.without(unread)

    def _load(self, cut: Cut, tables: Sequence[tuple[Table, Bookmark]]) -> None:
        self._follower.prepare([table for table, _ in tables])
        for table, bookmark in tables:
            copy, began = self._feed.copy(table, cut), time.monotonic()
            with self._watch(table.name, copy.row_count):
                self._follower.load(table, copy, bookmark)
            self._rest_until[table.name] = time.monotonic() + max(RETRY_SECONDS, REST * (time.monotonic() - began))
        if tables:
            self.tell(cut)


def find_missing_tables(follower: FedFollower, feed: LakeFeed) -> list[TableName]:
    """The tables that a follower should have where it stands, or at first, and has not."""
    position = follower.position()
    cut = feed.find_cut(position) if position else None
    return (
        find_missing_at(follower, feed, cut)
        if cut
        else [table.name for table, _ in feed.split_readable(feed.last_cut())[0]]
    )


def find_missing_at(follower: FedFollower, feed: LakeFeed, cut: Cut) -> list[TableName]:
    """The tables of a cut that a follower should have, and has not."""
    has = follower.bookmarks()
    # by their names first: the lake is asked only where there is something to ask
    names = {name for name in map(TableName.parse, cut.versions) if feed.has_table(name)} - has.keys()
    return [table.name for table, _ in select_readable(feed, cut, names)] if names else []


def select_readable(feed: LakeFeed, cut: Cut, names: Collection[TableName]) -> list[tuple[Table, Bookmark]]:
    """Those of a cut's tables that have these names, and can be read."""
    return feed.split_readable(cut, but={*map(TableName.parse, cut.versions)} - set(names))[0]


def has_followed_another_lake(follower: FedFollower, feed: LakeFeed) -> bool:
    """Does it stand where this lake has no cut? Nothing says then what changed since."""
    position = follower.position()
    return position is not None and feed.find_cut(position) is None
