"""The window of commits that a status looks at: each read once, exact at its end, in bundles before."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.position import LogStart, Lsn, Position
from cdc.core.transaction import TransactionEnd
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking import log_window
from cdc.run.status.asking.log_window import EXACT, LogWindow

TABLE = "public.orders"


@dataclass
class Topic:
    """A transaction topic in memory: an END of one change at each offset."""

    now: float = 1_000_000.0
    first: int = 0
    end: int = 0
    every_ms: float = 10.0
    """Between two commits, of which the one at offset 10,000 is now."""
    read: list[int] = field(default_factory=list)

    def bounds(self, *_: Any) -> tuple[int, int]:
        return self.first, self.end

    def between(
        self, reader: object, topic: str, start: int, stop: int, log: LogStart, written: dict[int, int] | None = None
    ) -> Ends:
        self.read += range(start, stop)
        if written is not None:
            written |= {at: self.committed_ms(at) for at in range(start, stop)}
        return to_columns(
            TransactionEnd(at, at, Lsn(at), self.committed_ms(at), {TABLE: 1}) for at in range(start, stop)
        )

    def committed_ms(self, at: int) -> int:
        return round(1000 * self.now - self.every_ms * (10_000 - at))


def open_window(patch: pytest.MonkeyPatch, topic: Topic) -> LogWindow:
    patch.setattr(log_window, "log_bounds", topic.bounds)
    patch.setattr(log_window, "read_ends_between", topic.between)
    patch.setattr("cdc.run.status.asking.log_window.time.time", lambda: topic.now)
    settings: Any = type("Settings", (), {"log": type("Log", (), {"prefix": "p"})})
    pipeline: Any = type("Opened", (), {"settings": settings, "open_log": lambda self: object()})()
    return LogWindow(cast(Pipeline, pipeline))


def at(offset: int) -> Position:
    return Position(offset, Lsn(offset), offset)


def count_lacking(ends: Ends, offset: int) -> int:
    return ends.where(ends.offset > offset).counts([TABLE]).get(TABLE, 0)


@given(
    steps=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=1, max_size=8),
    every_ms=st.sampled_from([10.0, 500.0, 5_000.0]),
    joins=st.integers(0, 300),
)
def test_what_a_follower_lacks_is_known_to_a_bundle(steps: list[tuple[int, int]], every_ms: float, joins: int) -> None:
    """The log grows, and the follower goes on, as they like; another one joins that is far behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_window, "EXACT", 50)
        patch.setattr(log_window, "LAST_MESSAGES", 20)
        patch.setattr(log_window, "MESSAGES_AT_ONCE", 70)
        topic = Topic(first=0, end=400, every_ms=every_ms)
        window, position = open_window(patch, topic), 350
        for number, (grown, moved) in enumerate(steps):
            topic.end += grown
            position = min(position + moved, topic.end - 1)
            positions = [position] if number < len(steps) - 1 else [position, min(joins, position)]
            look = window.look([at(each) for each in positions])
            for each in positions:
                lacking = topic.end - 1 - each
                counted = count_lacking(look.ends, each)
                # what of the bundle around the position is applied already is not known
                most = max(1, round(60_000 / every_ms))
                assert lacking <= counted <= lacking + (most if lacking > 50 else 0)
            assert look.newest == at(topic.end - 1)
            newest = range(max(position + 1, topic.end - 20), topic.end)
            assert look.ends.offset.tolist()[-len(newest) :] == [*newest] or not newest
            # each once, but for what was forgotten before somebody joined who lacks it
            assert len(topic.read) == len({*topic.read}) or number == len(steps) - 1


def test_a_million_commits_are_few_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(end=300_000, every_ms=1.0)
    window = open_window(monkeypatch, topic)
    ends = window.look([at(0)]).ends
    assert len(ends) < 2 * EXACT + 1_000
    assert count_lacking(ends, 0) >= 299_999
    assert len(topic.read) == 300_000


def test_a_clock_that_goes_back_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old commits that are kept as recent ones, and newer ones that seem older: none is read and counted twice."""
    monkeypatch.setattr(log_window, "EXACT", 50)
    monkeypatch.setattr(log_window, "LAST_MESSAGES", 20)
    topic = Topic(end=400)
    monkeypatch.setattr(topic, "committed_ms", lambda at: round(1000 * (topic.now - (0 if at < 200 else 3_600))))
    window = open_window(monkeypatch, topic)
    window.look([at(100)])
    window.look([at(399)])
    ends = window.look([at(150)]).ends
    assert len(topic.read) == len({*topic.read})
    # those up to 150 are in the bundle of the first that it lacks
    assert 249 <= count_lacking(ends, 150) <= 249 + 51
