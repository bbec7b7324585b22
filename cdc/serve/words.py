"""Durations, times and states in words, as the script of the page writes them: the first HTML and the script agree."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

MINUTE, HOUR, DAY = 60, 3600, 86400
LOOKS_MISSED, SPARE_SECONDS = 5, 5
"""What nobody has looked at for so many intervals and seconds is not known."""
SURE: Final = ("silent", "new")
"""States that do not age: a part that does not answer still does not, however long ago it was asked."""

UNKNOWN: Final = "\N{EN DASH}"

Json = Mapping[str, Any]


def format_span(seconds: float | None) -> str:
    """Write a duration: 0.4 s, 40 s, 12 min, 3 h 20 min, 2 d 5 h; a dash for one that is not known."""
    if seconds is None:
        return UNKNOWN
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5)
    if whole < 2 * MINUTE:
        return f"{whole} s"
    if whole < 2 * HOUR:
        return f"{whole // MINUTE} min"
    if whole < 2 * DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    hours = whole % DAY // HOUR if whole < 10 * DAY else 0
    return f"{whole // DAY} d{f' {hours} h' if hours else ''}"


def format_bytes(size: float | None) -> str:
    """Write a size: 512 bytes, 4.7 KiB, 38 MiB, 64 GiB; a dash for one that is not known."""
    if size is None:
        return UNKNOWN
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return _with_unit(size, unit)
        size /= 1024
    return _with_unit(size, "TiB")


def _with_unit(size: float, unit: str) -> str:
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{f'{size:.1f}'.removesuffix('.0')} {unit}"


def format_clock(at: datetime, seconds: bool = True) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}" if seconds else f"{at.astimezone(UTC):%H:%M}"


def parse_time(text: str) -> datetime:
    """A time of the document; raises ValueError for another text."""
    return datetime.fromisoformat(text)


def format_age(seconds: float) -> str:
    """Write how long ago something was, coarser than a duration: 40 s ago, 12 min ago, 5 h ago, 3 d ago."""
    whole = round(seconds)
    for unit, name, limit in ((1, "s", 2 * MINUTE), (MINUTE, "min", 2 * HOUR), (HOUR, "h", 2 * DAY)):
        if whole < limit:
            return f"{whole // unit} {name} ago" if whole > 1 else "now"
    return f"{whole // DAY} d ago"


def fill(text: str, about: Json, now: datetime) -> str:
    """Replace {left} by the time until the deadline of `about`, and {age} by the time since its beginning."""
    if "{left}" in text and "deadline" in about:
        left = (parse_time(about["deadline"]) - now).total_seconds()
        text = text.replace("{left}", format_span(max(left, 0)))
    if "{age}" in text and "since" in about:
        text = text.replace("{age}", format_span(max(round((now - parse_time(about["since"])).total_seconds()), 0)))
    return text


def is_old(at: str, every_seconds: float, now: datetime) -> bool:
    """Has nobody looked for so long that nothing is known?"""
    return (now - parse_time(at)).total_seconds() > LOOKS_MISSED * every_seconds + SPARE_SECONDS


def state_of(part: Json, every_seconds: float, now: datetime) -> Json:
    """The part itself, or one that is not known, since nobody has looked at it lately."""
    checked_at = part.get("checked_at")
    if part["state"] in SURE or not checked_at or not is_old(checked_at, every_seconds, now):
        return part
    age = format_age((now - parse_time(checked_at)).total_seconds())
    return {**part, "state": "unknown", "word": f"not known; last looked {age}"}
