"""The write rate of the lake: commits, files and bytes per hour, taken from the newest commits."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc.sinks.lake.delta.actions import Action, Add, Cdc, Remove, commit_time_ms, of_type
from cdc.sinks.lake.delta.snapshot import now_ms

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
        """Rounded counts per hour; `requests` only where they are asked for."""
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
        """The rate from the oldest remembered commit until now."""
        if not self._commits:
            return WriteRate()
        # until now, not until the last commit: an idle table's rate must fall
        hours = max(now_ms() - self._commits[0].at_ms, MIN_SPAN_MS) / HOUR_MS
        files, size = sum(commit.files for commit in self._commits), sum(commit.bytes for commit in self._commits)
        return WriteRate(len(self._commits) / hours, files / hours, size / hours)


def _files(actions: Sequence[Action]) -> dict[str, int]:
    """The files that a commit added, path → bytes; a vector file counts with its vectors' sizes."""
    added = [*of_type(actions, Add)]
    removed = {remove.path for remove in of_type(actions, Remove)}
    # a file that is also removed only got another vector
    sizes = {add.path: add.size for add in added if add.path not in removed}
    sizes |= {cdc.path: cdc.size for cdc in of_type(actions, Cdc)}
    for add in added:
        if (vector := add.deletion_vector) and vector.in_file:
            # several vectors share a file, whose size no action has
            sizes[vector.path] = sizes.get(vector.path, 0) + vector.size
    return sizes
