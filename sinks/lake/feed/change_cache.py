"""The lake's newest changes, kept in memory for followers in the same process."""

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from cdc.columns.feed import FeedRows

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_VERSIONS: Final = 100
"""Versions per table: a follower further behind reads files. Otherwise small commits would fill the cache in time."""
ENTRY_BYTES: Final = 8 * 1024
"""Overhead of one version's arrays, measured with seven columns."""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """The changes of one table version, and the size of their files in the lake."""

    rows: FeedRows
    file_bytes: int


class ChangeCache:
    """The changes of the newest table versions, as many as fit, and a signal for each new cut."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most = most_bytes
        self._entries: OrderedDict[tuple[str, int], RecentChanges] = OrderedDict()
        self._versions: dict[str, deque[int]] = {}
        self._bytes = 0
        self._cuts = 0
        self._bell = threading.Condition()

    def put(self, table_id: str, version: int, changes: RecentChanges) -> None:
        """Store the changes of one version of a Delta table; evicts the oldest when the cache is full."""
        with self._bell:
            # no follower in this process reads it
            if self._most <= 0:
                return
            self._entries[table_id, version] = changes
            self._bytes += changes.rows.nbytes + ENTRY_BYTES
            versions = self._versions.setdefault(table_id, deque())
            versions.append(version)
            if len(versions) > MAX_VERSIONS:
                self._drop((table_id, versions.popleft()))
            while self._bytes > self._most and self._entries:
                self._drop(next(iter(self._entries)))

    def _drop(self, key: tuple[str, int]) -> None:
        # perhaps gone already: a full cache drops the oldest version of any table
        dropped = self._entries.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped.rows.nbytes + ENTRY_BYTES

    def get(self, table_id: str, version: int) -> RecentChanges | None:
        """The changes of one version; None when they are not cached."""
        with self._bell:
            return self._entries.get((table_id, version))

    def announce_cut(self) -> None:
        with self._bell:
            self._cuts += 1
            self._bell.notify_all()

    def wait_for_cut(self, heard: int, seconds: float) -> int:
        """Wait until more than `heard` cuts were announced, or `seconds` passed; returns the number of cuts."""
        with self._bell:
            # a counter, so that a cut between the caller's look and this wait is not missed
            self._bell.wait_for(lambda: self._cuts > heard, seconds)
            return self._cuts
