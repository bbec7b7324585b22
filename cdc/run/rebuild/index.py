"""Rebuilds the index of a follower of kind search: beside the searched one, whose place it takes at one position.

    build     fill BESIDE at a cut (of the lake, or of the latest log), and bring it to the newest one, while
              `cdc follow` goes on with what is searched
    swap      the follower's stream rests; BESIDE goes to the cut where the searched one is, or a later one; it is
              compared with the lake there; the aliases of all tables change in one request; the stream goes on
    go back   the same with what was KEPT: it is brought on first

A kill leaves what is searched as it is. The next run goes on where BESIDE stands, or ends what has changed places.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cdc.columns.feed import FedFollower, FeedBatch
from cdc.columns.table_copy import FrameCopy
from cdc.core.errors import HistoryLostError, PreconditionError, RefusedError
from cdc.core.position import Position, format_lsn
from cdc.core.table import TableName
from cdc.core.text.plural import format_bytes, format_count
from cdc.run.copy.fill import TableFiller
from cdc.run.rebuild.feeds import BoundedFeed, bring, find_differences
from cdc.run.rebuild.handover import take_over
from cdc.run.rebuild.work import DIFFERS, From, RebuildPlan, RebuildResult, Work, describe_differences
from cdc.run.rebuilds import Replaced, choose_end, drop_kept
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.opensearch.layout import BESIDE, KEPT
from cdc.sinks.owner import Owner
from cdc.sinks.registry import index_generation
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.generations import Generations
from cdc.sinks.search.settings import SearchSettings

LEAVES: Final = "the old indexes, unsearched, for as long as the lake keeps its past; `--back-out` returns to them"


@dataclass(frozen=True)
class IndexRebuild:
    """`only`: these tables of the follower; None for all."""

    work: Work
    settings: SearchSettings
    only: Collection[TableName] | None = None

    @cached_property
    def generations(self) -> Generations:
        return Generations.of(self.settings, self._owner)

    @property
    def _owner(self) -> Owner:
        return Owner(self.work.pipeline.name, self.work.stream)

    def plan(self) -> RebuildPlan:
        if self.work.source is From.LOG:
            self._require_log()
        tables = self.only or self.work.pipeline.fed[self.work.stream].bookmarks()
        size = self.generations.measure(tables)
        return RebuildPlan(
            self.work.what,
            self.work.source,
            f"an index of {format_count(len(tables), 'table')} is built beside the searched one, brought on, compared"
            " with the lake, and takes its place at one position",
            f"about {format_bytes(size)} in the cluster, as much as is searched now, until the old one goes",
            LEAVES,
            size,
        )

    def run(self) -> RebuildResult:
        if self.work.can_go_on() and self._has_changed_places():
            return self._end()
        self._build()
        with take_over(self.work.pipeline, self.work.stream, self.work.say):
            beside = self._open(BESIDE)
            with closing(beside):
                feed, cut, at = self._meet(beside, BESIDE)
                self.work.begin("compares")
                rows, found = find_differences(beside, feed, cut, self.generations.count_refused)
                if found:
                    self.work.begin(DIFFERS)
                    raise describe_differences(self.work.what, cut.position.lsn, found)
            drop_kept(self.work.pipeline, self.work.stream)
            return self._swap(rows, cut, BESIDE, at)

    def back_out(self) -> RebuildResult:
        if self.work.is_cut_off_way_back() and self._has_changed_places():
            return self._end()
        if self.work.is_midway() or self.generations.list_tables(BESIDE):
            self.generations.drop(BESIDE)
            return self.work.give_up()
        self._require_kept()
        kept = self._open(KEPT)
        with closing(kept):
            self._bring_kept(kept)
            with take_over(self.work.pipeline, self.work.stream, self.work.say):
                feed, cut, at = self._meet(kept, KEPT)
                rows, found = find_differences(kept, feed, cut, self.generations.count_refused)
                for line in found:
                    self.work.say(f"{self.work.what}: as before the rebuild, {line}")
                return self._swap(rows, cut, KEPT, at)

    def _has_changed_places(self) -> bool:
        """Has a run that was cut off swapped already? What it replaced is KEPT then, and was searched before."""
        replaced, kept = self.work.list_replaced(), self.generations.find_indexes(KEPT)
        known = {name: each.index for name, each in replaced.items() if each.index}
        return bool(known) and all(kept.get(name) == index for name, index in known.items())

    def _end(self) -> RebuildResult:
        """Note the end of a run that was cut off behind its swap: another one would lose what is kept."""
        self.work.say(f"{self.work.what}: it was swapped before it was cut off")
        return RebuildResult(self.work.what, {}, None, self.work.finish(self.work.list_replaced()))

    def _build(self) -> None:
        """Fill what is to be searched, or go on with it, and bring it to the newest cut."""
        if not self.work.can_go_on():
            self.generations.drop(BESIDE)
        self.work.pipeline.start_spark()
        try:
            self._fill()
        except HistoryLostError:
            # the lake has no cut any more where a rebuild was cut off long ago
            self.generations.drop(BESIDE)
            self._fill()

    def _fill(self) -> None:
        beside, feed = self._open(BESIDE), self._open_feed(BESIDE)
        cut = feed.last_cut()
        tables = [table for table, _ in feed.tables(cut)]
        self.work.begin(
            f"copies {format_count(len(tables), 'table')}", sum(feed.row_count(each.name, cut) for each in tables)
        )
        with closing(beside):
            if self.work.source is From.LOG and beside.position() is None:
                self._fill_from_log(beside, feed)
            bring(beside, feed, self._open_filler(beside, feed))

    def _fill_from_log(self, beside: SearchFollower, feed: BoundedFeed) -> None:
        """Fill it with what consumers of the latest log see; the changes since its position are applied to that."""
        latest = self.work.pipeline.fed[self._require_log()]
        # before the topics are read: what they have above it is applied again, and the same
        position = latest.position()
        assert position
        cut = feed.require_cut(position)
        tables = feed.tables(cut)
        beside.prepare([table for table, _ in tables])
        for table, bookmark in tables:
            with self.work.open_bar(beside, table.name, feed.row_count(table.name, cut)):
                beside.load(table, FrameCopy(latest.rows(table), table), bookmark)
        beside.apply(FeedBatch({}, cut.committed_ms), cut.position)

    def _require_log(self) -> str:
        """The follower whose topics hold all rows of these tables; raises PreconditionError without one."""
        pipeline = self.work.pipeline
        logs = [name for name, each in pipeline.settings.followers.items() if isinstance(each, LatestSettings)]
        remedy = f"`cdc rebuild {self.work.what} --from lake`"
        if not logs:
            raise PreconditionError(
                "no log holds everything: change topics have the changes of the last hours only, and no follower is of"
                " kind latest",
                remedy,
            )
        latest = pipeline.fed[logs[0]]
        has = latest.bookmarks().keys() - latest.stops().keys()
        wanted = self.only or pipeline.fed[self.work.stream].bookmarks()
        if lacking := sorted(map(str, {*wanted} - has)):
            raise PreconditionError(f"the latest log {logs[0]} does not hold {', '.join(lacking)}", remedy)
        if latest.position() is None:
            raise PreconditionError(f"the latest log {logs[0]} was not filled yet", remedy)
        return logs[0]

    def _require_kept(self) -> None:
        """Raise PreconditionError when not all that is asked for is kept."""
        kept, stream = self.generations.list_tables(KEPT), self.work.stream
        lacking = ", ".join(str(name) for name in self.only or () if name not in kept)
        if kept and lacking:
            raise PreconditionError(
                f"nothing is kept of {lacking} from before a rebuild of {stream}, but of {', '.join(map(str, kept))}",
                f"name these by --table, or `cdc rebuild {self.work.what}` builds it anew",
            )
        if not kept:
            raise PreconditionError(
                f"nothing is kept of before a rebuild of {stream}", f"`cdc rebuild {self.work.what}` builds it anew"
            )

    def _bring_kept(self, kept: SearchFollower) -> None:
        self.work.pipeline.start_spark()
        self.work.begin_way_back("brings on what is kept of before")
        feed, position = self._open_feed(KEPT), kept.position()
        if position is None or feed.find_cut(position) is None:
            at = format_lsn(position.lsn) if position else "no position"
            self.work.forget()
            raise PreconditionError(
                f"what is kept of {self.work.stream} is as of {at}, and the lake no longer has the changes since",
                f"`cdc rebuild {self.work.stream}` builds it anew; `--drop-old` takes it away",
            )
        bring(kept, feed, self._open_filler(kept, feed))

    def _meet(self, taken: SearchFollower, generation: str) -> tuple[BoundedFeed, Cut, Position | None]:
        """Bring it to where the searched one is, or beyond if that has no other tables.

        Returns its feed, the cut, and the position of the searched one.
        """
        self.work.begin("catches up")
        pipeline, feed = self.work.pipeline, self._open_feed(generation)
        searched, all_tables = pipeline.fed[self.work.stream], BoundedFeed.of(pipeline, self.work.stream)
        feed.until = all_tables.last_cut()
        if {*searched.bookmarks()} - {*(self.only or self.generations.list_tables(generation))}:
            # what is not swapped stays beside it, at the same position
            all_tables.until = feed.until
            bring(searched, all_tables, self._open_filler(searched, all_tables))
        bring(taken, feed, self._open_filler(taken, feed))
        at = searched.position()
        searched.close()
        if at and not feed.until.position.covers(at):
            raise RefusedError(
                f"{self.work.stream} is ahead of the lake: another `cdc follow` writes to it, or the lake was put back",
                "run `cdc rebuild` on the machine that follows; `cdc bootstrap` fills it anew from this lake",
            )
        return feed, feed.until, at

    def _swap(self, found: Mapping[TableName, int], cut: Cut, generation: str, at: Position | None) -> RebuildResult:
        # what is kept is brought on as a whole, since it has one position
        rows = {name: count for name, count in found.items() if not self.only or name in self.only}
        until, searched = choose_end(self.work.pipeline), self.generations.find_indexes("")
        self.work.keep({name: Replaced(until, index=searched.get(name)) for name in rows})
        self.generations.exchange([*rows], generation, at)
        return RebuildResult(self.work.what, rows, cut.position.lsn, self.work.finish(rows))

    def _open(self, generation: str) -> SearchFollower:
        return index_generation(self.work.pipeline.spark, self.settings, self._owner, generation)

    def _open_feed(self, generation: str) -> BoundedFeed:
        only = self.generations.list_tables(KEPT) if generation == KEPT else self.only
        return BoundedFeed.of(self.work.pipeline, self.work.stream, only)

    def _open_filler(self, follower: FedFollower, feed: BoundedFeed) -> TableFiller:
        def open_bar(name: TableName, rows: int) -> AbstractContextManager[None]:
            return self.work.open_bar(follower, name, rows)

        return TableFiller(self.work.stream, follower, feed, self.work.say, open_bar)
