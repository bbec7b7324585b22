"""Rebuilds a follower that has no second name for what its readers read: its tables are written again where they are.

A consumer of a compacted topic holds offsets of that topic, and a match that was told cannot be taken back. So each
table is written again as of the follower's own position, while its stream rests: what a reader gets is right, and no
older than what it had, one row or one table at a time.
"""

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.rebuild.feeds import BoundedFeed, find_differences
from cdc.run.rebuild.handover import take_over
from cdc.run.rebuild.work import RebuildPlan, RebuildResult, Work, describe_differences


@dataclass(frozen=True)
class InPlaceRebuild:
    """`kind`: what its readers read. `only`: these tables of the follower; None for all."""

    work: Work
    kind: str
    only: Collection[TableName] | None = None

    def plan(self) -> RebuildPlan:
        tables = self.only or self.work.pipeline.fed[self.work.stream].bookmarks()
        return RebuildPlan(
            self.work.what,
            self.work.source,
            f"its stream rests, and {len(tables)} of its tables are written again as of its position, in {self.kind}:"
            " readers stay where they are, and get every row once more, none older than they had",
            "room for one more copy of the rows, until compaction; its readers wait for news as long as it takes",
            "no way back: there is no second name to return to",
        )

    def run(self) -> RebuildResult:
        pipeline, stream = self.work.pipeline, self.work.stream
        pipeline.start_spark()
        self.work.begin("waits for its stream")
        with take_over(pipeline, stream, self.work.say), closing(pipeline.fed[stream]) as follower:
            position, feed = follower.position(), BoundedFeed.of(pipeline, stream, self.only)
            if position is None:
                raise PreconditionError(f"{stream} was not filled yet", "run `cdc follow`: it fills it")
            cut = feed.require_cut(position)
            tables = feed.tables(cut)
            follower.take_over()
            self.work.begin("writes", sum(feed.row_count(table.name, cut) for table, _ in tables))
            for table, bookmark in tables:
                with self.work.open_bar(follower, table.name, feed.row_count(table.name, cut)):
                    follower.load(table, feed.copy(table, cut), bookmark)
            rows, found = find_differences(follower, feed, cut)
        self.work.finish(rows)
        if found:
            raise describe_differences(self.work.what, cut.position.lsn, found)
        return RebuildResult(self.work.what, rows, cut.position.lsn)

    def back_out(self) -> RebuildResult:
        """Only of what was cut off: what is written is right, and `cdc follow` copies what lacks its end."""
        if self.work.note.running:
            self.work.forget()
            return RebuildResult(self.work.what, {}, None)
        raise PreconditionError(
            f"{self.work.stream} has no way back: it is written in {self.kind}, which have no second name",
            f"nothing; `cdc verify --follower {self.work.stream}` says whether it is right",
        )
