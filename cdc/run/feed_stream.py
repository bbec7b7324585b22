"""The stream that keeps a follower behind the lake in sync: cuts come in, their change feed is applied."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.feed import FedFollower, FeedBatch
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.run.lake_stream import Progress
from sinks.lake.cuts import Cut, cut_of
from sinks.lake.feed import LakeFeed

CUTS_A_BATCH = 20
Watch = Callable[[TableName, int], AbstractContextManager[None]]


def _unwatched(name: TableName, rows: int) -> AbstractContextManager[None]:
    return nullcontext()


class FeedStream:
    """Applies the table of cuts to one follower behind the lake; one call a micro-batch."""

    def __init__(
        self,
        follower: FedFollower,
        feed: LakeFeed,
        reached: Callable[[Progress], bool],
    ) -> None:
        self._follower = follower
        self._feed = feed
        self._reached = reached
        self._cut = resumed(follower, feed)

    def source(self, spark: SparkSession) -> DataFrame:
        """The table of cuts, as a streaming frame."""
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", 200).load(self._feed.cuts_folder)
        return frame.where(F.col("end_offset") > self._cut.position.end_offset)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        cuts = sorted((cut_of(row.asDict()) for row in frame.collect()), key=lambda cut: cut.position.end_offset)
        fresh = [cut for cut in cuts if cut.position.end_offset > self._cut.position.end_offset]
        for first in range(0, len(fresh), CUTS_A_BATCH):
            if not self._apply(fresh[first : first + CUTS_A_BATCH][-1]):
                return

    def _apply(self, until: Cut) -> bool:
        tables = self._feed.tables(until)
        _prepare(self._follower, tables)
        for table, bookmark in tables:
            before = self._cut.versions.get(str(table.name))
            if before is None or before > until.versions[str(table.name)]:
                self._follower.load(table, self._feed.copy(table, until), bookmark)
        self._follower.apply(self._feed.batch([table for table, _ in tables], self._cut, until), until.position)
        self._cut = until
        return self._reached(Progress(until.position, 0))


def resumed(follower: FedFollower, feed: LakeFeed, watch: Watch = _unwatched) -> Cut:
    """The cut that a follower stands at; what it lacks of that, it is given first: all, or later what was lost."""
    position = follower.position()
    if position is None:
        return _first_load(follower, feed, watch)
    cut = feed.at(position)
    _load(follower, feed, cut, _lost(follower, feed, cut), watch)
    return cut


def lacking(follower: FedFollower, feed: LakeFeed) -> list[TableName]:
    """The tables that a follower should have where it stands, or at first, and has not."""
    position = follower.position()
    found = _lost(follower, feed, feed.at(position)) if position else feed.tables(feed.last())
    return [table.name for table, _ in found]


def _lost(follower: FedFollower, feed: LakeFeed, cut: Cut) -> list[tuple[Table, Bookmark]]:
    has = follower.bookmarks()
    return [each for each in feed.tables(cut) if each[0].name not in has]


def _first_load(follower: FedFollower, feed: LakeFeed, watch: Watch) -> Cut:
    """Fill a follower from the lake as it stands at its newest cut, and put it there.

    Without a position every table is copied, also one that has been: it may have been at an older cut, before a crash.
    `watch` is given every table with its rows, for as long as its copy takes.
    """
    cut = feed.last()
    _load(follower, feed, cut, feed.tables(cut), watch)
    follower.apply(FeedBatch({}), cut.position)
    return cut


def _load(
    follower: FedFollower, feed: LakeFeed, cut: Cut, tables: Sequence[tuple[Table, Bookmark]], watch: Watch
) -> None:
    _prepare(follower, tables)
    for table, bookmark in tables:
        with watch(table.name, feed.row_count(table.name, cut)):
            follower.load(table, feed.copy(table, cut), bookmark)


def _prepare(follower: FedFollower, tables: Sequence[tuple[Table, Bookmark]]) -> None:
    follower.prepare([table for table, _ in tables])
