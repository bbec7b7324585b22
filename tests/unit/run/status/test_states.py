"""One state for each part: what stands still, what is quiet, what only waits, and what nobody knows."""

import pytest

from cdc.connect.capture.connector_state import ConnectorState
from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position
from cdc.core.table_state import Followed, Joining, Listed, Stopped, TableState
from cdc.run.health.result import Failing
from cdc.run.status.asking.facts import CaptureLook, FollowerLook, LogLook, StreamLook
from cdc.run.status.asking.questions import LastAnswer
from cdc.run.status.judging.lag import Lag
from cdc.run.status.judging.states import (
    Before,
    Judged,
    describe_copy,
    find_cause,
    judge_answer,
    judge_capture,
    judge_follower,
    judge_log,
    judge_table,
)
from cdc.run.status.stream_report import CopyReport
from cdc.run.status.things import State

RUNNING = ConnectorState("c", "RUNNING", ("RUNNING",))
OK = Judged(State.OK, "current")
HERE = StreamLook(is_followed=True)
AT = FollowerLook(Position(7, Lsn(700), 1))
NOW = 1_700_000_000.0


def failing(*, is_still: bool = False) -> Failing:
    return Failing(PreconditionError("why", "do this"), NOW - 60, True, "kind", is_still=is_still)


@pytest.mark.parametrize(
    ("look", "has_slot", "state", "word"),
    [
        (CaptureLook(RUNNING), True, State.OK, "running"),
        (CaptureLook(ConnectorState("c", "UNASSIGNED")), True, State.OK, "starting"),
        (CaptureLook(RUNNING, failing=failing(is_still=True)), True, State.STILL, "stands still"),
        (
            CaptureLook(ConnectorState("c", "RUNNING", ("FAILED",), "bad"), failing=failing()),
            True,
            State.FAILED,
            "failed",
        ),
        (CaptureLook(ConnectorState("c", "PAUSED", ("PAUSED",)), failing=failing()), True, State.PAUSED, "paused"),
        (CaptureLook(failing=failing()), True, State.STOPPED, "deleted"),
        (CaptureLook(failing=failing()), False, State.NEW, "not set up"),
        (CaptureLook(None, UnreachableError("no"), failing(), NOW - 60), True, State.SILENT, "does not answer"),
        (CaptureLook(None, UnreachableError("no"), failing(is_still=True)), True, State.STILL, "stands still"),
    ],
)
def test_one_state_from_connector_tasks_and_progress(
    look: CaptureLook, has_slot: bool, state: State, word: str
) -> None:
    found = judge_capture(look, has_slot=has_slot, is_log_current=True)
    assert (found.state, found.word) == (state, word)
    assert found.since == (NOW - 60 if look.failing and state is not State.NEW else None)


@pytest.mark.parametrize("is_log_current", [True, False])
def test_a_silent_connect_is_told_with_what_comes_into_the_log(is_log_current: bool) -> None:
    look = CaptureLook(None, UnreachableError("no"), failing(), NOW)
    line = judge_capture(look, has_slot=True, is_log_current=is_log_current).line
    assert line == f"Kafka Connect; {'the log goes on' if is_log_current else 'nothing new comes into the log'}"


def test_a_quiet_log_is_current_as_long_as_heartbeats_arrive() -> None:
    look = LogLook(newest=AT.position, newest_at=NOW - 8)
    assert judge_log(look, OK, is_current=True, age=8.0) == Judged(State.OK, "current", "newest commit 8 s ago")
    still = judge_log(look, Judged(State.STILL, "stands still"), is_current=False, age=1440.0)
    assert (still.state, still.word, still.since) == (State.WAITS, "waits for capture", NOW - 8)
    assert judge_log(LogLook(), OK, is_current=False, age=None).state is State.NEW


@pytest.mark.parametrize(
    ("look", "stream", "lag", "state", "word"),
    [
        (AT, HERE, Lag(0, 0, 0.0, is_caught_up=True), State.OK, "current"),
        # quiet for a year, and it lacks nothing
        (AT, StreamLook(), Lag(0, 0, 0.0, is_caught_up=True), State.OK, "current"),
        (AT, HERE, Lag(5, 9, 3.0, is_caught_up=False), State.OK, "current"),
        (AT, HERE, Lag(5, 9, 600.0, is_caught_up=False), State.BEHIND, "behind by 10 min"),
        (FollowerLook(), HERE, None, State.NEW, "not filled yet"),
        (AT, HERE, None, State.UNKNOWN, "not known"),
        (AT, StreamLook(end=HistoryLostError("gone")), Lag(0, 0, 0.0, is_caught_up=True), State.STOPPED, "stopped"),
        (
            AT,
            StreamLook(True, UnreachableError("no")),
            Lag(1, 1, 0.5, is_caught_up=False),
            State.FAILED,
            "does not go on",
        ),
    ],
)
def test_state_of_a_follower(look: FollowerLook, stream: StreamLook, lag: Lag | None, state: State, word: str) -> None:
    found = judge_follower(look, stream, lag, Before(OK, True, None))
    assert (found.state, found.word) == (state, word)


def test_who_has_all_that_a_waiting_log_has_waits_too() -> None:
    lag, log = Lag(0, 900, 1475.0, is_caught_up=False), Judged(State.WAITS, "waits for capture")
    found = judge_follower(AT, HERE, lag, Before(log, False, NOW))
    assert (found.state, found.word, found.line) == (State.WAITS, "as of 22:13", "waits for the log")


def test_who_has_all_that_a_lake_has_waits_for_the_lake() -> None:
    lag, lake = Lag(50, 900, 600.0, is_caught_up=False), Judged(State.BEHIND, "behind by 10 min")
    before = Before(OK, True, NOW, lake, 7)
    assert judge_follower(AT, HERE, lag, before).state is State.WAITS
    assert judge_follower(AT, HERE, lag, Before(OK, True, NOW, lake, 8)).state is State.BEHIND
    assert judge_follower(AT, StreamLook(), lag, Before(OK, True, NOW)).line == "nobody follows it here"


def test_who_cannot_be_measured_waits_for_a_log_that_does_not_answer() -> None:
    silent = Judged(State.SILENT, "does not answer")
    assert judge_follower(AT, HERE, None, Before(silent, False, None)).word == "waits for the log"
    assert judge_follower(AT, HERE, None, Before(OK, True, NOW)).word == "as of 22:13"


def test_the_first_broken_step_is_the_cause() -> None:
    assert find_cause(OK, Judged(State.STILL, ""), Judged(State.WAITS, ""), Judged(State.STOPPED, "")) == 1
    # a connector fails when its Kafka does not answer
    assert find_cause(OK, Judged(State.FAILED, ""), Judged(State.SILENT, ""), Judged(State.WAITS, "")) == 2
    assert find_cause(OK, Judged(State.WAITS, ""), Judged(State.BEHIND, "")) is None


def test_a_check_that_was_not_renewed_is_not_known() -> None:
    answer = LastAnswer("here", checked_at=NOW - 14, holds_seconds=15)
    assert judge_answer(answer, NOW) is None
    assert judge_answer(answer, NOW + 26) == Judged(State.UNKNOWN, "not known; last looked 40 s ago")
    silent = judge_answer(LastAnswer("here", UnreachableError("no"), NOW - 9, NOW), NOW)
    assert silent == Judged(State.SILENT, "does not answer", since=NOW - 9, why="no")
    refused = judge_answer(LastAnswer(None, PreconditionError("wrong password"), NOW, NOW), NOW)
    assert refused is not None
    assert refused.state is State.FAILED


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, State.UNKNOWN),
        (Listed(), State.LISTED),
        (Joining(), State.JOINING),
        (Followed(), State.FOLLOWED),
        (Stopped(Lsn(1), "why", True), State.STOPPED),
    ],
)
def test_state_of_a_table(state: TableState | None, told: State) -> None:
    assert judge_table(state, None) is told
    assert judge_table(state, CopyReport(at=NOW, began_at=NOW)) is State.COPYING


def test_time_left_of_a_copy() -> None:
    copy = describe_copy(CopyReport(at=NOW, began_at=NOW - 100, done_rows=2000, all_rows=10_000))
    assert (copy.rows_per_second, copy.seconds_left) == (20.0, 400.0)
    assert describe_copy(CopyReport(at=NOW, began_at=NOW, all_rows=9)).seconds_left is None
    # more rows than the estimate: the time left is nothing, never less
    assert describe_copy(CopyReport(at=NOW, began_at=NOW - 1, done_rows=12, all_rows=9)).seconds_left == 0
