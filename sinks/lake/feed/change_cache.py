"""What the lake has just written, kept in memory for the followers behind it in the same process."""

import threading
from collections import OrderedDict, deque
from typing import Final

from cdc.columns.feed import FeedRows

MOST_BYTES: Final = 64 * 1024 * 1024
MOST_VERSIONS: Final = 100
"""Of a table: whoever is further behind reads files. Else small commits would fill all that they may, in time."""
ENTRY_BYTES: Final = 8 * 1024
"""What the arrays of one version take beside their values, measured with seven columns."""


class RecentChanges:
    """The changes of the newest versions of tables, as many as fit; and a bell for each new cut."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[tuple[str, int], FeedRows] = OrderedDict()
        self._versions: dict[str, deque[int]] = {}
        self._bytes = 0
        self._cuts = 0
        self._bell = threading.Condition()

    def put(self, table_id: str, version: int, changes: FeedRows) -> None:
        """Keep what one version of a Delta table changed; the oldest go when there is too much."""
        with self._bell:
            if self._most <= 0:
                return
            self._kept[table_id, version] = changes
            self._bytes += changes.nbytes + ENTRY_BYTES
            versions = self._versions.setdefault(table_id, deque())
            versions.append(version)
            if len(versions) > MOST_VERSIONS:
                self._drop((table_id, versions.popleft()))
            while self._bytes > self._most and self._kept:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, int]) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped.nbytes + ENTRY_BYTES

    def get(self, table_id: str, version: int) -> FeedRows | None:
        with self._bell:
            return self._kept.get((table_id, version))

    def ring(self) -> None:
        """A cut has come."""
        with self._bell:
            self._cuts += 1
            self._bell.notify_all()

    def wait(self, heard: int, seconds: float) -> int:
        """Wait until more cuts have come than were `heard` of, or the time is over; gives how many have."""
        with self._bell:
            # counted: a cut that came after the look and before the wait is not slept through
            self._bell.wait_for(lambda: self._cuts > heard, seconds)
            return self._cuts
