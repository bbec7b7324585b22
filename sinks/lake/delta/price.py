"""What keeping the lake fresh costs: commits, files and bytes an hour, as the newest commits of its logs say."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinks.lake.delta.snapshot import Action, committed_ms, now_ms, paths_of

REMEMBERED: Final = 50
"""Of so many commits a log knows what they wrote."""
HOUR_MS: Final = 3_600_000
LEAST_MS: Final = 60_000
"""A rate is of a minute at least: two commits of one moment are no busy hour."""
REQUESTS_A_COMMIT: Final = 2
"""Beside one for each file: whether the commit before is there, and what the upkeep reads."""


@dataclass(frozen=True, slots=True)
class Price:
    """What is written in an hour, at the rate of the newest commits."""

    commits: float = 0.0
    files: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Price") -> "Price":
        return Price(self.commits + other.commits, self.files + other.files, self.bytes + other.bytes)

    @property
    def requests(self) -> float:
        """Of an object store."""
        return self.files + REQUESTS_A_COMMIT * self.commits

    def as_json(self, *, requests: bool) -> dict[str, int]:
        found = {"commits": round(self.commits), "files": round(self.files), "bytes": round(self.bytes)}
        return found | ({"requests": round(self.requests)} if requests else {})


@dataclass(frozen=True, slots=True)
class _Commit:
    at_ms: int
    files: int
    bytes: int


class Written:
    """What the newest commits of a log wrote, as far as it was read."""

    def __init__(self) -> None:
        self._commits: deque[_Commit] = deque(maxlen=REMEMBERED)

    def take_in(self, actions: Sequence[Action]) -> None:
        files = _files(actions)
        self._commits.append(_Commit(committed_ms(actions), 1 + len(files), sum(files.values())))

    def price(self) -> Price:
        """At the rate of the commits that are known, up to now: of a table that rests it falls."""
        if not self._commits:
            return Price()
        hours = max(now_ms() - self._commits[0].at_ms, LEAST_MS) / HOUR_MS
        found = self._commits
        return Price(len(found) / hours, sum(c.files for c in found) / hours, sum(c.bytes for c in found) / hours)


def _files(actions: Iterable[Action]) -> dict[str, int]:
    """The files that a commit brought, and their sizes: of a vectors' file, what its vectors take."""
    added = [action["add"] for action in actions if "add" in action]
    there = {action["remove"]["path"] for action in actions if "remove" in action}
    found = {each["path"]: int(each["size"]) for each in added if each["path"] not in there}
    found |= {each["path"]: int(each["size"]) for each in (a["cdc"] for a in actions if "cdc" in a)}
    for each in added:
        for path in paths_of(each)[1:]:
            found[path] = found.get(path, 0) + _vector_bytes(each)
    return found


def _vector_bytes(add: Any) -> int:
    return int(add["deletionVector"]["sizeInBytes"])
