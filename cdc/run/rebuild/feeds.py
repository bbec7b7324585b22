"""Feeds of one rebuild: the lake's changes up to a cut; followers are brought there, and compared with it."""

import threading
from collections.abc import Callable, Collection

from cdc.columns.feed import FedFollower
from cdc.core.table import Table, TableName
from cdc.run.copy.fill import TableFiller
from cdc.run.follow.feed_stream import FeedStream, FeedStreamHooks
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.digest import digest_of_files
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut


class BoundedFeed(LakeFeed):
    """The feed of a follower, of some tables only, and up to one cut if `until` is set."""

    until: Cut | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, follower: str, only: Collection[TableName] | None = None) -> "BoundedFeed":
        s = pipeline.settings

        def holds(name: TableName) -> bool:
            return s.holds(follower, name) and (only is None or name in only)

        def fits(table: Table) -> bool:
            return s.holds_table(follower, table)

        return cls(pipeline.spark, pipeline.lake, None, holds, fits, with_views=s.holds_views(follower))

    def cuts_after(self, than: Cut, most: int) -> list[Cut]:
        cuts = super().cuts_after(than, most)
        return [cut for cut in cuts if self.until is None or self.until.position.covers(cut.position)]

    def last_cut(self) -> Cut:
        return self.until or super().last_cut()


def bring(follower: FedFollower, feed: BoundedFeed, filler: TableFiller) -> Cut:
    """Bring a follower to the feed's last cut, as it is now; tables that it lacks are copied. Returns the cut."""
    target = feed.last_cut()

    def goes_on(_: object) -> bool:
        position = follower.position()
        return position is None or not position.covers(target.position)

    hooks = FeedStreamHooks(goes_on, lambda: None)
    stream = FeedStream(follower, feed, filler, ChangeCache(0), hooks)
    if goes_on(None):
        stream.run(threading.Event())
    return target


CountRefused = Callable[[TableName], int]


def find_differences(
    follower: FedFollower, feed: LakeFeed, cut: Cut, count_refused: CountRefused = lambda name: 0
) -> tuple[dict[TableName, int], list[str]]:
    """The rows by table of a follower that stands at a cut, and what is not equal to the lake there, by digests."""
    rows, found, stops = dict[TableName, int](), list[str](), follower.stops()
    for table, _ in feed.tables(cut):
        if stop := stops.get(table.name):
            found.append(stop.what)
            continue
        ours, theirs = digest_of_files(feed.copy(table, cut), follower.held(table)), follower.digest(table)
        refused = count_refused(table.name)
        rows[table.name] = theirs.rows
        if (ours.rows - refused != theirs.rows) or (not refused and ours != theirs):
            found.append(f"{table.name} has {theirs.rows:,} rows, the lake {ours.rows:,}")
    return rows, found
