"""The write rate of the lake: commits, files and bytes per hour, taken from the newest commits."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinks.lake.delta.snapshot import Action, commit_time_ms, now_ms, paths_of

MAX_COMMITS: Final = 50
"""Commits per log that the rate is taken from."""
HOUR_MS: Final = 3_600_000
MIN_SPAN_MS: Final = 60_000
"""Shortest span for a rate: two commits of one second make no busy hour."""
REQUESTS_A_COMMIT: Final = 2
"""Requests beyond one per file: the check of the previous commit, and the maintenance's reads."""


@dataclass(frozen=True, slots=True)
class WriteRate:
    """Commits, files and bytes written per hour."""

    commits: float = 0.0
    files: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "WriteRate") -> "WriteRate":
        return WriteRate(self.commits + other.commits, self.files + other.files, self.bytes + other.bytes)

    @property
    def requests(self) -> float:
        """Requests per hour to an object store."""
        return self.files + REQUESTS_A_COMMIT * self.commits

    def as_json(self, *, requests: bool) -> dict[str, int]:
        rates = {"commits": round(self.commits), "files": round(self.files), "bytes": round(self.bytes)}
        return rates | ({"requests": round(self.requests)} if requests else {})


@dataclass(frozen=True, slots=True)
class _Commit:
    at_ms: int
    files: int
    bytes: int


class RateMeter:
    """Remembers the sizes of one log's newest commits."""

    def __init__(self) -> None:
        self._commits: deque[_Commit] = deque(maxlen=MAX_COMMITS)

    def add(self, actions: Sequence[Action]) -> None:
        """Count one commit by its actions."""
        files = _files(actions)
        self._commits.append(_Commit(commit_time_ms(actions), 1 + len(files), sum(files.values())))

    def rate(self) -> WriteRate:
        """The rate from the oldest remembered commit until now: it falls while a table is idle."""
        if not self._commits:
            return WriteRate()
        hours = max(now_ms() - self._commits[0].at_ms, MIN_SPAN_MS) / HOUR_MS
        commits = self._commits
        return WriteRate(
            len(commits) / hours, sum(c.files for c in commits) / hours, sum(c.bytes for c in commits) / hours
        )


def _files(actions: Iterable[Action]) -> dict[str, int]:
    """The files that a commit added, path → bytes; a vector file counts with its vectors' sizes."""
    added = [action["add"] for action in actions if "add" in action]
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    sizes = {file["path"]: int(file["size"]) for file in added if file["path"] not in removed}
    sizes |= {file["path"]: int(file["size"]) for file in (a["cdc"] for a in actions if "cdc" in a)}
    for file in added:
        for path in paths_of(file)[1:]:
            sizes[path] = sizes.get(path, 0) + _vector_bytes(file)
    return sizes


def _vector_bytes(add: Any) -> int:
    return int(add["deletionVector"]["sizeInBytes"])
