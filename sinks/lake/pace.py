"""How often the lake commits: as soon as changes are there, or less often where a commit costs far more than it brings.

A commit writes the whole vector of every file that it takes rows from: 130 KB, in a file of a million rows of which
some are gone anywhere. That is a bad bargain for the hundred rows of 0.2 s, and a good one for the rows of a second. On
an object store, each commit is a handful of requests. What waits is bounded by the freshness that the user names.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

FREE_BYTES_A_SECOND: Final = 64 * 1024
"""So much may always be written beside the rows: 225 MiB an hour."""
FAIR: Final = 2.0
"""And so many times what the changed rows are themselves. At 500 random updates a second in a million rows, data, files
put together and rewrites write another 2.6 times the rows."""
FEW: Final = 5.0
"""Waiting brings nothing where fewer transactions than this come within the freshness."""
FILE_BYTES: Final = 2048
"""What a Parquet file of a few rows takes beside them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What commits have written: `own`, the bytes of the changed rows' values; `beside`, bytes of vectors, log and
    what files take whatever is in them; and how many files."""

    own: int = 0
    beside: int = 0
    files: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.own + other.own, self.beside + other.beside, self.files + other.files)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`freshness`: seconds that a change may wait for others; `requests_a_second`, where they are paid for."""

    freshness: float
    requests_a_second: float | None = None

    @classmethod
    def of_folder(cls, freshness: float | None) -> Self:
        return cls(1.5 if freshness is None else freshness)

    @classmethod
    def of_object_store(cls, freshness: float | None) -> Self:
        """By default a commit every 6.5 s of one busy table: 5,800 requests an hour, those of the upkeep among them."""
        return cls(6.5 if freshness is None else freshness, 1.5)


def interval(cost: Cost, transactions: int, seconds: float, bounds: Bounds) -> float:
    """Seconds from one commit to the next, by what the last one cost that took in so many `transactions`, of so many
    `seconds`."""
    took = max(seconds, 1e-3)
    by_requests = (cost.files * REQUESTS_A_FILE / bounds.requests_a_second) if bounds.requests_a_second else 0.0
    allowed = max(FREE_BYTES_A_SECOND, FAIR * cost.own / took)
    by_bytes = cost.beside / allowed if transactions / took * bounds.freshness >= FEW else 0.0
    return min(bounds.freshness, max(by_requests, by_bytes))


REQUESTS_A_FILE: Final = 2.1
"""A file is a PUT; a commit also looks whether the one before it is there and nobody else was first, and files are read
when they are put together."""


class Pace:
    """When the next commit is due. One thread asks, another tells what commits cost."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._began = self._before = float("-inf")
        self._interval = 0.0

    def remaining(self) -> float:
        """Seconds until the next batch is to be read."""
        return max(0.0, self._began + self._interval - self._clock())

    def begin(self) -> None:
        """A batch is read now, up to what is there."""
        self._before, self._began = self._began, self._clock()

    def committed(self, cost: Cost, transactions: int) -> None:
        """The batch that began last has been committed."""
        self._interval = interval(cost, transactions, self._began - self._before, self._bounds)
