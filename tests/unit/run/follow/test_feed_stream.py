"""Which cuts go to a follower together: after an error, at least those of the batch that failed."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.feed import FedFollower, FeedBatch
from cdc.core.errors import UnreachableError
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.copy.fill import TableFiller
from cdc.run.follow import feed_stream
from cdc.run.follow.feed_stream import CUTS_A_BATCH, FeedStream, FeedStreamHooks
from cdc.run.follow.step_size import FEED_BYTES, STEP_SECONDS, StepBounds, StepSize
from cdc.run.follow.streams import BatchProgress
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut
from tests.support.examples import examples

FIRST_BYTES = FEED_BYTES.first
THINGS, OTHERS = (
    Table(TableName("public", name), (Column("id", Kind.INTEGER),), ("id",)) for name in ("things", "others")
)
Sizes = Sequence[tuple[int, int]]
"""Bytes that each cut changes in the two tables."""


def cut(number: int, copies: int = 0) -> Cut:
    """A cut, named by the version of both tables, which have been copied anew so often."""
    versions = {str(table.name): number for table in (THINGS, OTHERS)}
    return Cut(Position(number, Lsn(number), number), number, versions, dict.fromkeys(versions, f"id {copies}"))


@dataclass
class Feed:
    """As much of a lake's feed as the stream asks for; `there`: how many cuts it has by now; `copied`: those that are
    the first ones of copies."""

    sizes: Sizes
    there: int
    looks: int = 0
    copied: Sequence[int] = ()

    def cuts_after(self, than: Cut, most: int) -> list[Cut]:
        self.looks += 1
        first = than.position.end_offset + 1
        return [self._cut(number) for number in range(first, self.there + 1)][:most]

    def _cut(self, number: int) -> Cut:
        return cut(number, sum(number >= at for at in self.copied))

    def forget(self) -> None: ...

    def copy(self, table: Table, until: Cut) -> None: ...

    def last_cut(self) -> Cut:
        return cut(self.there)

    def tables(self, until: Cut) -> list[tuple[Table, Bookmark | None]]:
        return [(THINGS, None), (OTHERS, None)]

    def change_bytes(self, table: Table, since: Cut, until: Cut) -> int:
        changed = self.sizes[since.position.end_offset : until.position.end_offset]
        return sum(each[table == OTHERS] for each in changed)

    def changes(self, table: Table, since: Cut, until: Cut) -> Sequence[Any]:
        return ()


@dataclass
class Follower:
    """Fails at its first batch, and hears how far each one reaches."""

    asked: list[int] = field(default_factory=list)

    def prepare(self, tables: Sequence[Table]) -> None: ...

    def stops(self) -> dict[TableName, Any]:
        return {}

    def load(self, table: Table, copy: None, bookmark: None) -> None: ...

    def furthest(self) -> Position | None:
        return cut(self.asked[-1]).position if self.asked else None

    def apply(self, batch: FeedBatch, position: Position) -> None:
        self.asked.append(position.end_offset)
        if len(self.asked) == 1:
            raise UnreachableError("it does not answer", "wait")


class Filler:
    def resume(self) -> Cut:
        return cut(0)

    def require_furthest(self) -> None: ...

    def report_stops(self, until: Cut) -> None: ...

    def say_remarks(self) -> None: ...

    def refill(self, until: Cut) -> None: ...


def ask(sizes: Sizes, first: int) -> list[int]:
    """How far the first batch reaches, which fails when there are `first` cuts; then the second, when all are there."""
    feed, follower = Feed(sizes, first), Follower()
    hooks = FeedStreamHooks(reached=lambda _: False, works=lambda: None)

    def run() -> None:
        parts = cast(FedFollower, follower), cast(LakeFeed, feed), cast(TableFiller, Filler())
        FeedStream(*parts, ChangeCache(0), hooks).run(threading.Event())

    with pytest.raises(UnreachableError):
        run()
    feed.there = len(sizes)
    run()
    return follower.asked


some_bytes = st.integers(0, FIRST_BYTES // 4) | st.sampled_from([0, FIRST_BYTES, FIRST_BYTES + 1])


@examples(200)
@given(st.lists(st.tuples(some_bytes, some_bytes), min_size=1, max_size=30), st.data())
def test_a_batch_after_an_error_reaches_at_least_as_far(sizes: Sizes, data: st.DataObject) -> None:
    failed, next_one = ask(sizes, data.draw(st.integers(1, len(sizes))))
    assert next_one >= failed


def test_a_batch_that_was_cut_off_is_taken_whole_though_steps_are_smaller_now() -> None:
    feed, follower = Feed([(FIRST_BYTES, 0)] * 5, 5), Follower(asked=[4])
    hooks = FeedStreamHooks(reached=lambda _: False, works=lambda: None)
    parts = cast(FedFollower, follower), cast(LakeFeed, feed), cast(TableFiller, Filler())
    FeedStream(*parts, ChangeCache(0), hooks).run(threading.Event())
    assert follower.asked == [4, 4]


def test_the_cut_of_a_copy_goes_alone() -> None:
    """It is loaded before the position moves: after a kill, a smaller step has to reach it all the same."""
    feed, follower = Feed([(1, 1)] * 9, 9, copied=(4, 7)), Follower(asked=[0])
    hooks = FeedStreamHooks(reached=lambda progress: progress.position.end_offset < 9, works=lambda: None)
    parts = cast(FedFollower, follower), cast(LakeFeed, feed), cast(TableFiller, Filler())
    FeedStream(*parts, ChangeCache(0), hooks).run(threading.Event())
    assert follower.asked == [0, 3, 4, 6, 7, 9]


def test_a_step_is_what_a_follower_takes_in_some_seconds() -> None:
    size = StepSize(FEED_BYTES)
    assert size.most == FEED_BYTES.first
    size.note(1_000_000, STEP_SECONDS / 2)
    assert size.most == 2_000_000
    size.note(1_000_000, 60 * STEP_SECONDS)
    assert size.most == FEED_BYTES.least
    size.note(1_000_000, 0.001)
    assert size.most == FEED_BYTES.most
    # most of this time is not the bytes'
    size.note(1_000, STEP_SECONDS / 2)
    assert size.most == FEED_BYTES.most
    # of a single cut nobody asks how large it is
    size.note(0, 60 * STEP_SECONDS)
    assert size.most == FEED_BYTES.most


@pytest.mark.parametrize(("most", "first"), [(200_000, 20_000), (5_000, 5_000), (1, 1)])
def test_a_step_of_the_lake_is_never_more_than_its_setting(most: int, first: int) -> None:
    size = StepSize(StepBounds.of_changes(most))
    assert size.most == first
    size.note(first, STEP_SECONDS / 1000)
    assert size.most == most
    size.note(1, 60 * STEP_SECONDS)
    assert size.most == min(2_000, most)


def test_as_many_cuts_as_are_small_go_together() -> None:
    half = FIRST_BYTES // 2
    assert ask([(half, half)] * 5, 5) == [2, 2]
    assert ask([(half, 1), (1, half), (half, half), (1, 1)], 2) == [2, 2]
    # one that is large goes alone
    assert ask([(FIRST_BYTES + 1, 0), (0, 0)], 2) == [1, 1]
    assert ask([(1, 1)] * (CUTS_A_BATCH + 1), 5) == [5, CUTS_A_BATCH]


def test_what_a_follower_lacks_is_filled_between_two_looks_for_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store a look is a request; a table that has stopped is tried again without one."""
    monkeypatch.setattr(feed_stream, "OTHER_SECONDS", 0.001)
    feed, stopping, rings = Feed([(1, 1)], 0), threading.Event(), ChangeCache(0)

    @dataclass
    class FillsOften(Filler):
        count: int = 0

        def refill(self, until: Cut) -> None:
            self.count += 1
            if self.count == 5:
                feed.there = 1
                rings.announce_cut()

    filler, follower, reached = FillsOften(), Follower(asked=[0]), list[int]()

    def reach(progress: BatchProgress) -> bool:
        reached.append(progress.position.end_offset)
        return False

    hooks = FeedStreamHooks(reach, lambda: None)
    parts = cast(FedFollower, follower), cast(LakeFeed, feed), cast(TableFiller, filler)
    # a poll would take for ever: the ring ends it
    FeedStream(*parts, rings, hooks, poll_seconds=1e6).run(stopping)
    assert (feed.looks, filler.count, reached) == (2, 6, [1])
