"""Heartbeats for waits: one behind each token, none that another one makes needless."""

from dataclasses import dataclass, field

import pytest

from cdc.core.position import Lsn
from cdc.run.read.beats import LASTING_SECONDS, PAUSE_SECONDS, WaitBeats


@dataclass
class Source:
    """A source at an LSN, which may be held up by a lock; `written`: where it stood before each heartbeat."""

    lsn: int = 100
    now: float = 0.0
    is_locked: bool = False
    written: list[int] = field(default_factory=list)

    def write(self) -> Lsn | None:
        if self.is_locked:
            return None
        self.written.append(self.lsn)
        self.lsn += 10
        return Lsn(self.written[-1])

    def clock(self) -> float:
        return self.now


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def beats(source: Source) -> WaitBeats:
    return WaitBeats(source.write, source.clock)


def test_waits_for_what_is_committed_share_a_heartbeat(source: Source, beats: WaitBeats) -> None:
    assert all(beats.offer(Lsn(token)) for token in (100, 90, 100, 1))
    assert source.written == [100]


def test_token_behind_the_last_heartbeat_gets_one_after_a_pause(source: Source, beats: WaitBeats) -> None:
    assert beats.offer(Lsn(source.lsn))
    assert not beats.offer(Lsn(source.lsn))
    source.now = PAUSE_SECONDS
    assert beats.offer(Lsn(source.lsn))
    assert source.written == [100, 110]


def test_heartbeat_that_met_a_lock_is_tried_again(source: Source, beats: WaitBeats) -> None:
    source.is_locked = True
    assert not beats.offer(Lsn(100))
    source.is_locked, source.now = False, PAUSE_SECONDS
    assert beats.offer(Lsn(100))
    assert source.written == [100]


def test_heartbeat_of_long_ago_counts_no_more(source: Source, beats: WaitBeats) -> None:
    assert beats.offer(Lsn(100))
    source.now = LASTING_SECONDS
    assert beats.offer(Lsn(100))
    assert source.written == [100, 100 + 10]


def test_token_that_the_source_has_not_reached_costs_one_heartbeat(source: Source, beats: WaitBeats) -> None:
    # whoever waits asks no more after this answer
    assert beats.offer(Lsn(1_000_000))
    assert source.written == [100]


def test_nothing_is_written_while_another_thread_writes(source: Source) -> None:
    answers = list[bool]()

    def write() -> Lsn | None:
        answers.append(busy.offer(Lsn(100)))
        return source.write()

    busy = WaitBeats(write, source.clock)
    assert busy.offer(Lsn(100))
    assert (answers, source.written) == ([False], [100])
