"""The pace of commits: at once when they are cheap, less often when they cost far more than the rows.

A commit writes the whole vector of every file that loses rows: 130 KB for a file of a million rows with scattered
deletes. That is too much for a hundred rows of 0.2 s, and fine for a second's rows. On an object store, a commit is a
handful of requests. The user's freshness bounds the wait. Heartbeats alone are no change: a cut for each would be most
of what an idle lake asks of its store.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

FREE_BYTES_A_SECOND: Final = 64 * 1024
"""Overhead that is always allowed: 225 MiB per hour."""
OVERHEAD_RATIO: Final = 2.0
"""Allowed overhead, as a multiple of the changed rows. At 500 random updates per second in a million rows, data,
compaction and rewrites add 2.6 times the rows."""
MIN_TRANSACTIONS: Final = 5.0
"""With fewer transactions than this within the freshness, waiting gains nothing."""
STORE_REST_SECONDS: Final = 55.0
"""For so long after a commit to an object store, heartbeats alone get no cut: with one every ten seconds, they get one
a minute."""
FILE_BYTES: Final = 2048
"""Overhead of a Parquet file with a few rows."""


@dataclass(frozen=True, slots=True)
class CommitCost:
    """What commits wrote: `row_bytes`, the values of changed rows; `overhead_bytes`, vectors, log and fixed parts of
    files; and the number of files."""

    row_bytes: int = 0
    overhead_bytes: int = 0
    files: int = 0

    def __add__(self, other: "CommitCost") -> "CommitCost":
        return CommitCost(
            self.row_bytes + other.row_bytes, self.overhead_bytes + other.overhead_bytes, self.files + other.files
        )


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """`freshness`: seconds that a change may wait for others. `requests_a_second`: a limit where requests cost.
    `rest`: seconds that heartbeats for which nobody waits may lack a cut."""

    freshness: float
    requests_a_second: float | None = None
    rest: float = 0.0

    @classmethod
    def of_folder(cls, freshness: float | None) -> Self:
        """The limits of a lake in a folder: 1.5 s by default."""
        return cls(1.5 if freshness is None else freshness)

    @classmethod
    def of_object_store(cls, freshness: float | None) -> Self:
        """The limits on an object store. By default one busy table commits every 6.5 s: 5,800 requests per hour with
        maintenance."""
        return cls(6.5 if freshness is None else freshness, 1.5, STORE_REST_SECONDS)


def commit_interval(cost: CommitCost, transactions: int, seconds: float, bounds: PaceLimits) -> float:
    """Seconds until the next commit, by the last one's cost for `transactions` that came within `seconds`."""
    # batches may begin at the same moment
    took = max(seconds, 1e-3)
    by_requests = (cost.files * REQUESTS_A_FILE / bounds.requests_a_second) if bounds.requests_a_second else 0.0
    allowed = max(FREE_BYTES_A_SECOND, OVERHEAD_RATIO * cost.row_bytes / took)
    by_bytes = cost.overhead_bytes / allowed if transactions / took * bounds.freshness >= MIN_TRANSACTIONS else 0.0
    return min(bounds.freshness, max(by_requests, by_bytes))


REQUESTS_A_FILE: Final = 2.1
"""A file is one PUT. A commit also checks the previous commit and reads back on conflicts; compaction reads files."""


class Pace:
    """Says when the next commit is due. One thread asks, another reports costs."""

    def __init__(self, bounds: PaceLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._began = self._before = float("-inf")
        self._interval = 0.0
        # so that the first batch is committed, whatever it is
        self._committed = float("-inf")

    def remaining(self) -> float:
        """Seconds until the next batch should be read."""
        return max(0.0, self._began + self._interval - self._clock())

    def begin(self) -> None:
        """Note that a batch is being read now."""
        self._before, self._began = self._began, self._clock()

    def may_rest(self) -> bool:
        """Whether the last commit is so recent that heartbeats alone need none now."""
        return self._clock() - self._committed < self._bounds.rest

    def note_rest(self) -> None:
        """Note that the batch that began last needs no commit: the next one need not wait."""
        self._interval = 0.0

    def note_commit(self, cost: CommitCost, transactions: int) -> None:
        """Note the cost of the batch that began last."""
        # from one beginning to the next: the time in which these transactions came
        self._committed = self._clock()
        self._interval = commit_interval(cost, transactions, self._began - self._before, self._bounds)
