"""One state for each part, follower, table and view, from the facts of a look; no I/O, no clock.

The first broken step of the path is the cause. What stands behind it has nothing to do: it waits, and is no problem of
its own. What stands still is told apart from what is quiet: a follower that lacks no change is current, however long
nobody has written, as long as heartbeats arrive.
"""

from dataclasses import dataclass
from typing import Any, Final

from cdc.connect.capture.connector_state import ConnectorState
from cdc.core.errors import PausedError
from cdc.core.table_state import Followed, Joining, Listed, Stopped, TableState
from cdc.run.health.result import Failing, format_duration
from cdc.run.status.asking.facts import CaptureLook, FollowerLook, LogLook, StreamLook
from cdc.run.status.asking.questions import LastAnswer
from cdc.run.status.judging.lag import Lag
from cdc.run.status.stream_report import CopyReport
from cdc.run.status.things import CopyStatus, State, to_time

BROKEN: Final = frozenset({State.SILENT, State.FAILED, State.STILL, State.STOPPED, State.PAUSED})
"""States of a part that may be the cause of what stands behind it."""
CAPTURE, LOG = 1, 2
"""Their places in the path."""
BEHIND_SECONDS: Final = 10.0
"""A follower is behind from twice the goal on: one slow batch makes no state."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A state in words. `since`: seconds since 1970, where the facts say it."""

    state: State
    word: str
    line: str = ""
    since: float | None = None
    why: str | None = None

    @property
    def is_broken(self) -> bool:
        return self.state in BROKEN


def judge_answer(answer: LastAnswer[Any], now: float) -> Judged | None:
    """The state of a part that gave no answer, or none lately; None for one that did."""
    if answer.error is not None:
        silent = Judged(State.SILENT, "does not answer", since=answer.since, why=answer.error.what)
        failed = Judged(State.FAILED, "failed", since=answer.since, why=answer.error.what)
        return silent if answer.is_silent else failed
    if answer.checked_at is None:
        return Judged(State.UNKNOWN, "not known")
    if answer.is_stale(now):
        return Judged(State.UNKNOWN, f"not known; last looked {format_duration(now - answer.checked_at)} ago")
    return None


def judge_capture(look: CaptureLook, *, has_slot: bool | None, is_log_current: bool) -> Judged:
    """The state of the capture: folded from connector, tasks, and whether anything moves. `has_slot`: if known."""
    state, failing = look.connector, look.failing
    if failing is None:
        return Judged(State.OK, "running" if state and state.tasks else "starting", _describe_tasks(state))
    if state is None and not look.silent and has_slot is False:
        return Judged(State.NEW, "not set up")
    since = failing.since if look.silent is None or failing.is_still else look.silent_since
    return Judged(*_judge_failing(look, failing, is_log_current=is_log_current), since, failing.error.what)


def _judge_failing(look: CaptureLook, failing: Failing, *, is_log_current: bool) -> tuple[State, str, str]:
    """The state of a capture that does not go on, its word, and the line below."""
    state = look.connector
    if state is not None and state.failure is not None:
        return State.FAILED, "failed", state.failure
    if state is not None and state.idle is not None:
        return State.PAUSED, "paused", "by somebody in Kafka Connect"
    if failing.is_still:
        return State.STILL, "stands still", f"says it runs, {_describe_tasks(state)}" if state else ""
    if look.silent is not None:
        goes_on = "the log goes on" if is_log_current else "nothing new comes into the log"
        return State.SILENT, "does not answer", f"Kafka Connect; {goes_on}"
    return State.STOPPED, "deleted", "Kafka Connect has no such connector"


def _describe_tasks(state: ConnectorState | None) -> str:
    return f"task {', '.join(state.tasks).lower() or 'none'}" if state else ""


def judge_log(look: LogLook, capture: Judged, *, is_current: bool, age: float | None) -> Judged:
    """The state of the log; `age`: of its newest commit, in seconds."""
    if look.newest is None:
        word = "waits for capture" if capture.is_broken else "no transaction yet"
        return Judged(State.WAITS if capture.is_broken else State.NEW, word)
    line = f"newest commit {format_duration(age)} ago" if age is not None else ""
    if is_current:
        return Judged(State.OK, "current", line)
    return Judged(State.WAITS, "waits for capture", line, look.newest_at)


@dataclass(frozen=True, slots=True)
class Before:
    """What stands before a follower: the log, and the lake where it is fed from that.

    `newest_at`: the newest commit in the log, in seconds since 1970. `lake`: None for the lake itself.
    """

    log: Judged
    is_log_current: bool
    newest_at: float | None
    lake: Judged | None = None
    lake_offset: int | None = None


def judge_follower(look: FollowerLook, stream: StreamLook, lag: Lag | None, before: Before) -> Judged:
    """The state of a follower that answers."""
    if isinstance(stream.problem, PausedError):
        return Judged(State.PAUSED, "paused", stream.problem.what, why=stream.problem.what)
    if stream.end is not None:
        return Judged(State.STOPPED, "stopped", "nobody follows it", stream.since, stream.end.what)
    if look.position is None:
        return Judged(State.NEW, "not filled yet")
    if stream.problem is not None:
        return Judged(State.FAILED, "does not go on", stream.problem.what, stream.since, stream.problem.what)
    if lag is None:
        return _judge_unmeasured(before)
    return _judge_lag(lag, stream, before, is_with_lake=look.position.end_offset == before.lake_offset)


def _judge_lag(lag: Lag, stream: StreamLook, before: Before, *, is_with_lake: bool) -> Judged:
    """The state of a follower by its lag. `is_with_lake`: it has all that the lake has."""
    if not lag.is_caught_up and not lag.changes and not before.is_log_current:
        at = before.newest_at
        word = f"as of {to_time(at):%H:%M}" if at is not None else "waits for the log"
        return Judged(State.WAITS, word, "waits for the log", at)
    if lag.is_caught_up or lag.seconds < BEHIND_SECONDS:
        return Judged(State.OK, "current")
    word, line = f"behind by {format_duration(lag.seconds)}", "" if stream.is_followed else "nobody follows it here"
    lake = before.lake
    if lake and lake.state is not State.OK and is_with_lake:
        return Judged(State.WAITS, "waits for the lake", word)
    return Judged(State.BEHIND, word, line)


def _judge_unmeasured(before: Before) -> Judged:
    """Of a follower whose lag cannot be told, since source or log do not answer."""
    if before.newest_at is not None:
        return Judged(State.WAITS, f"as of {to_time(before.newest_at):%H:%M}", "waits for the log", before.newest_at)
    if before.log.is_broken:
        return Judged(State.WAITS, "waits for the log")
    return Judged(State.UNKNOWN, "not known", before.log.word)


def judge_table(state: TableState | None, copy: CopyReport | None) -> State:
    """The state of a table; None where the lake does not answer."""
    if copy is not None:
        return State.COPYING
    match state:
        case None:
            return State.UNKNOWN
        case Stopped():
            return State.STOPPED
        case Joining():
            return State.JOINING
        case Followed():
            return State.FOLLOWED
        case Listed():
            return State.LISTED


def judge_view(text: str, stream: StreamLook, problem: str | None) -> Judged:
    """The state of a view, from the words of its description."""
    if isinstance(stream.problem, PausedError):
        return Judged(State.PAUSED, "paused", why=stream.problem.what)
    if text == "stopped":
        return Judged(State.STOPPED, text, why=problem)
    if stream.end is not None:
        return Judged(State.STOPPED, "stopped", since=stream.since, why=stream.end.what)
    if stream.problem is not None:
        return Judged(State.FAILED, "does not go on", since=stream.since, why=stream.problem.what)
    if text == "not filled yet":
        return Judged(State.NEW, text)
    return Judged(State.OK if text.startswith("kept up") else State.WAITS, text, why=problem)


def describe_copy(report: CopyReport) -> CopyStatus:
    """A copy under way, with the time that is left at its pace."""
    took = report.at - report.began_at
    rate = report.done_rows / took if took > 0 and report.done_rows else None
    ahead = max(report.all_rows - report.done_rows, 0) if report.all_rows is not None else None
    return CopyStatus(
        phase=report.phase,
        done_rows=report.done_rows,
        all_rows=report.all_rows,
        rows_per_second=round(rate, 1) if rate else None,
        seconds_left=round(ahead / rate, 1) if rate and ahead is not None else None,
        began_at=to_time(report.began_at),
    )


def find_cause(*path: Judged) -> int | None:
    """The place of the step that keeps the others: the first that is broken. A connector fails, too, when the log
    behind it does not answer: then it is that one."""
    first = next((place for place, step in enumerate(path) if step.is_broken), None)
    is_log_silent = len(path) > LOG and path[LOG].state is State.SILENT
    return LOG if first == CAPTURE and is_log_silent else first
