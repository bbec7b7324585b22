"""Retries and ends of a stream."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, RefusedError, UnreachableError
from cdc.run.follow import streams
from cdc.run.follow.streams import ProblemReporter, StreamRunner
from cdc.run.spark.errors import SparkEndedError

BLOCKED = PreconditionError("an index is blocked", "lift the block")
SILENT = UnreachableError("nobody answers", "is it running?")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(streams, "LONGEST_WAIT_SECONDS", 1.0)


class Play:
    """A stream that meets these failures, one a try, and then ends as one does that is told to stop."""

    def __init__(self, failures: Sequence[Exception], reporter: ProblemReporter | None = None) -> None:
        self._failures: Iterator[Exception] = iter(failures)
        self._reporter = reporter

    def run(self, stopping: threading.Event) -> None:
        failure = next(self._failures, None)
        if failure is not None:
            raise failure
        if self._reporter:
            self._reporter.clear()


def run_stream(*failures: Exception, waits: bool) -> tuple[CdcError | None, list[str], list[CdcError | None]]:
    """How a runner ends, what it says, and what is told of its problem."""
    said, told = list[str](), list[CdcError | None]()
    reporter = ProblemReporter(told.append) if waits else None
    play = Play(failures, reporter)
    ended = StreamRunner("search", lambda: play, threading.Event(), said.append, reporter).run()
    return ended, said, told


def test_repairable_failures_are_retried_and_said_once() -> None:
    ended, said, told = run_stream(BLOCKED, BLOCKED, SILENT, SILENT, KeyError("a bug"), BLOCKED, waits=True)
    assert ended is None
    assert [line.removeprefix("search: ") for line in said] == [
        "an index is blocked → lift the block; trying again until it works",
        "nobody answers → is it running?; trying again until it works",
        "follower search stopped: 'a bug' → what is finished stays; mend the cause, then start it again; trying again"
        " until it works",
        "an index is blocked → lift the block; trying again until it works",
    ]
    # whoever asks how it stands is told each, and that it is over
    assert [each and each.what for each in told] == [
        "an index is blocked",
        "nobody answers",
        "follower search stopped: 'a bug'",
        "an index is blocked",
        None,
    ]


@pytest.mark.parametrize(
    "failure", [RefusedError("taken over"), HistoryLostError("gone"), SparkEndedError("Java ended")], ids=str
)
def test_final_failures_end_the_stream(failure: CdcError) -> None:
    assert run_stream(BLOCKED, failure, SILENT, waits=True)[0] is failure


def test_lake_stream_retries_unreachable_servers_only() -> None:
    ended, said, _ = run_stream(SILENT, SILENT, BLOCKED, waits=False)
    assert ended is BLOCKED
    assert len(said) == 2
