"""The order of work in the stream of views: new cuts first, fills in between, and the end when both are done."""

import threading
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from cdc.core.position import Lsn, Position
from cdc.run.follow import view_stream
from cdc.run.follow.feed_stream import FeedStreamHooks
from cdc.run.follow.streams import BatchProgress
from cdc.run.follow.view_stream import ViewStream
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.views.upkeep.keeper import ViewKeeper

FIRST = Cut(Position(1, Lsn(10), 1, {}), 0, {}, {})


def cut_at(offset: int) -> Cut:
    return replace(FIRST, position=Position(offset, Lsn(10 * offset), offset, {}))


@dataclass
class Play:
    """A keeper that needs two steps for a cut, cuts of which a new one comes with each fill, and what was done."""

    unfilled: int
    is_filling: bool = False
    newest: int = 1
    at: int = 0
    done: list[str] = field(default_factory=list)

    def last(self) -> Cut:
        return cut_at(self.newest)

    def advance(self, cut: Cut) -> Cut:
        self.at += 1
        self.done.append(f"advance to {self.at} of {cut.position.end_offset}")
        # the last view that is filled beside the others is shown at the newest cut
        self.is_filling = self.is_filling and self.at < self.newest
        return cut_at(self.at)

    def fill_next(self) -> bool:
        if not self.unfilled:
            return False
        self.unfilled -= 1
        self.newest += 1
        self.done.append("fill")
        return True

    def close(self) -> None:
        self.done.append("close")

    def save(self) -> None:
        self.done.append("save")

    def reached(self, progress: BatchProgress) -> bool:
        self.done.append(f"reached {progress.position.end_offset}")
        return self.at < self.newest


def test_views_go_on_between_two_fills_and_the_end_is_told_behind_all_of_them() -> None:
    play = Play(unfilled=2)
    hooks = FeedStreamHooks(play.reached, lambda: None)
    ViewStream(cast("ViewKeeper", play), cast("Cuts", play), ChangeCache(0), hooks, 0.0).run(threading.Event())
    assert play.done == [
        "advance to 1 of 1",
        "fill",
        "advance to 2 of 2",
        "fill",
        "advance to 3 of 3",
        "reached 3",
        "close",
        "save",
    ]


def test_a_view_far_behind_goes_on_at_once() -> None:
    play = Play(unfilled=0, newest=3)
    hooks = FeedStreamHooks(play.reached, lambda: None)
    # would wait for ever if it waited between two slices
    ViewStream(cast("ViewKeeper", play), cast("Cuts", play), ChangeCache(0), hooks, 1e6).run(threading.Event())
    told = [
        "advance to 1 of 3",
        "reached 1",
        "advance to 2 of 3",
        "reached 2",
        "advance to 3 of 3",
        "reached 3",
        "close",
        "save",
    ]
    assert play.done == told


def test_a_stopped_view_is_tried_again_between_two_looks_for_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store a look is a request, and there may be no new cut for a minute."""
    monkeypatch.setattr(view_stream, "OTHER_SECONDS", 0.001)
    stopping = threading.Event()

    class Stopped(Play):
        """A view's next try is due with the fifth question."""

        asked: int = 0
        looks: int = 0

        def last(self) -> Cut:
            self.looks += 1
            return super().last()

        def fill_next(self) -> bool:
            self.asked += 1
            if self.asked == 5:
                self.unfilled = 1
            return super().fill_next()

        def reached(self, progress: BatchProgress) -> bool:
            super().reached(progress)
            # the view was filled at a cut that came meanwhile
            return progress.position.end_offset < 2

    play = Stopped(unfilled=0)
    hooks = FeedStreamHooks(play.reached, lambda: None)
    # a poll would take for ever
    ViewStream(cast("ViewKeeper", play), cast("Cuts", play), ChangeCache(0), hooks, 1e6).run(stopping)
    assert play.done == ["advance to 1 of 1", "reached 1", "fill", "advance to 2 of 2", "reached 2", "close", "save"]
    assert play.looks <= 4


def test_views_go_on_at_once_beside_a_fill_and_the_end_waits_for_it() -> None:
    play = Play(unfilled=0, newest=3, is_filling=True)
    hooks = FeedStreamHooks(play.reached, lambda: None)
    ViewStream(cast("ViewKeeper", play), cast("Cuts", play), ChangeCache(0), hooks, 1e6).run(threading.Event())
    assert play.done == ["advance to 1 of 3", "advance to 2 of 3", "advance to 3 of 3", "reached 3", "close", "save"]
