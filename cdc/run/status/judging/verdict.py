"""The verdict: one sentence that says how the whole stands; no I/O, no clock."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from cdc.core.text.plural import format_count
from cdc.run.health.result import format_duration
from cdc.run.status.document import StatusProblem, StatusVerdict
from cdc.run.status.things import FollowerStatus, Level, Part, State, TableStatus

CHECK_CODES: Final = {Level.OK: 0, Level.BUSY: 0, Level.KNOW: 1, Level.TODAY: 1, Level.NEW: 1, Level.NOW: 2}
"""What `cdc status --check` ends with, as monitors read it: 0 well, 1 a warning, 2 critical, 3 not known."""
NOT_KNOWN: Final = 3


def reach_verdict(
    problems: Mapping[str, StatusProblem],
    parts: Mapping[str, Part],
    followers: Mapping[str, FollowerStatus],
    tables: Mapping[str, TableStatus],
) -> StatusVerdict:
    """The verdict over all of these; `problems` are the most urgent first."""
    if parts["capture"].state is State.NEW and parts["lake"].state is State.NEW:
        silent = [part.name for part in parts.values() if part.state in (State.SILENT, State.FAILED)]
        answers = f"{', '.join(silent)} does not answer." if silent else "All parts answer."
        return StatusVerdict(level=Level.NEW, title="Nothing is captured yet", detail=answers)
    urgent = [problem for problem in problems.values() if problem.level in (Level.NOW, Level.TODAY)]
    if urgent:
        deadline = next((problem.deadline for problem in urgent if problem.deadline), None)
        since = urgent[0].since
        title = _join([_title(problem) for problem in urgent], tables)
        return StatusVerdict(
            level=urgent[0].level, title=title, detail=_describe_rest(tables), deadline=deadline, since=since
        )
    unknown = [*_unknown(parts), *_unknown(followers)]
    if unknown:
        return StatusVerdict(level=Level.UNKNOWN, title=f"Not known: {', '.join(dict.fromkeys(unknown))}")
    return _reach_calm_verdict(problems, followers, tables)


def _reach_calm_verdict(
    problems: Mapping[str, StatusProblem], followers: Mapping[str, FollowerStatus], tables: Mapping[str, TableStatus]
) -> StatusVerdict:
    copying = [table.copy for table in tables.values() if table.state is State.COPYING and table.copy]
    detail = f"{_describe_rest(tables)} {_describe_freshness(followers)}".strip()
    if problems:
        first, more = next(iter(problems.values())), len(problems) - 1
        further = f", and {more} more" if more else ""
        return StatusVerdict(
            level=Level.KNOW, title=f"Everything is current; to know: {first.what}{further}", detail=detail
        )
    if not copying:
        return StatusVerdict(level=Level.OK, title="Everything is current", detail=detail)
    if len(copying) < len(tables):
        title = f"Everything is current; copying {format_count(len(copying), 'table')}"
        return StatusVerdict(level=Level.BUSY, title=title, detail=detail)
    done = sum(copy.done_rows or 0 for copy in copying)
    whole = sum(copy.all_rows or 0 for copy in copying)
    left = max((copy.seconds_left for copy in copying if copy.seconds_left is not None), default=None)
    share = f": about {min(100 * done // whole, 99)} %" if whole else ""
    time_left = f", {format_duration(left)} left" if left is not None else ""
    return StatusVerdict(level=Level.BUSY, title=f"Copying {format_count(len(copying), 'table')}{share}{time_left}")


def _title(problem: StatusProblem) -> str:
    return problem.what if len(problem.what) < 120 else f"{problem.what[:117]}..."


def _join(titles: Sequence[str], tables: Mapping[str, TableStatus]) -> str:
    """Two facts are joined, more are counted; many tables are one fact."""
    stopped = [
        title for title in titles if title.endswith(" is stopped") and title.removesuffix(" is stopped") in tables
    ]
    if len(stopped) > 1:
        one = f"{len(stopped)} of {format_count(len(tables), 'table')} are stopped"
        titles = [one, *(title for title in titles if title not in stopped)]
    titles = [titles[0], *(re.sub("^The ", "the ", title) for title in titles[1:])]
    first = ", and ".join(titles[:2])
    return first if len(titles) <= 2 else f"{titles[0]}, {titles[1]}, and {len(titles) - 2} more"


def _describe_rest(tables: Mapping[str, TableStatus]) -> str:
    followed = sum(table.state is State.FOLLOWED for table in tables.values())
    if not tables:
        return ""
    if followed == len(tables):
        return f"All {followed:,} tables are followed." if followed > 1 else "Its table is followed."
    return f"{followed:,} of {len(tables):,} tables followed."


def _describe_freshness(followers: Mapping[str, FollowerStatus]) -> str:
    seen = [f"in {name} after {f.p50_seconds:.1f} s" for name, f in followers.items() if f.p50_seconds is not None]
    return f"A commit is seen {', '.join(seen)}." if seen else ""


def _unknown(things: Mapping[str, Part] | Mapping[str, FollowerStatus]) -> list[str]:
    return [name for name, thing in things.items() if thing.state is State.UNKNOWN]


def check_code(verdict: StatusVerdict) -> int:
    """The exit code of `cdc status --check`."""
    return CHECK_CODES.get(verdict.level, NOT_KNOWN)
