"""What a check of the capture results in, and the words for its times."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cdc.core.errors import CdcError


@dataclass(frozen=True, slots=True)
class Healthy:
    """Nothing is known against the capture, or not for long enough to count."""


@dataclass(frozen=True, slots=True)
class Failing:
    """The capture makes no progress, or may not: `error` says why, and what helps.

    `since`: when it last made progress, in seconds since 1970 by the source's clock; None if not known. `is_final`:
    waiting is no use. `kind`: equal for the same trouble, whose error has durations that grow. `is_still`: everything
    says that it runs, and no data moves.
    """

    error: CdcError
    since: float | None
    is_final: bool
    kind: str
    is_still: bool = False


Health = Healthy | Failing


def fail_since(trouble: CdcError, newest_at: float | None, now: float, *, is_final: bool) -> Failing:
    """Make the result of a connector's error, with the time since the log's newest commit if it is known."""
    age = (
        f"; the newest commit in the log is from {format_time(newest_at)} ({format_duration(now - newest_at)} ago)"
        if newest_at
        else ""
    )
    error = type(trouble).from_text(f"{trouble.what}{age}", trouble.remedy)
    return Failing(error, newest_at, is_final, str(trouble))


def format_duration(seconds: float) -> str:
    """Write a duration for people: 40 s, 12 min, 3 h 20 min."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def format_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
