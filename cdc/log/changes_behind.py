"""How many changes a follower lacks up to an LSN, by the ENDs in the log: read once, and read on from look to look."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cdc.columns.netting.ends import Ends
from cdc.core.position import LogStart, Lsn, Position
from cdc.log.clients.reader import Reader
from cdc.log.transaction_topic import log_bounds, read_ends_between

MESSAGES_AT_A_TIME: Final = 200_000
"""Messages of the transaction topic that become columns at once; what is kept of an END takes 16 bytes."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """Changes that are in the log and not in a follower; `is_whole` once the log has passed the LSN."""

    changes: int
    is_whole: bool


class ChangesBehind:
    """Counts the changes of some tables up to `lsn` that lie behind a position; for one thread at a time.

    A position is expected to move on; for an earlier one, or one of another capture, the log is read again.
    """

    def __init__(self, reader: Reader, topic: str, tables: Collection[str], lsn: Lsn) -> None:
        self.lsn = lsn
        self._reader = reader
        self._topic = topic
        self._tables = tables
        self._begin(Position(0, Lsn(0), 0))

    def _begin(self, position: Position) -> None:
        self._log_start: LogStart = position.log_start
        self._first = self._next = position.end_offset + 1
        # of each END with such changes, in order: its offset, and how many
        self._offsets, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._is_whole = False

    def count(self, position: Position) -> Lacking:
        """Count the changes behind this position. Raises UnreachableError when no broker answers."""
        if position.log_start != self._log_start or position.end_offset + 1 < self._first:
            self._begin(position)
        # what is applied by now need not be read
        self._next = max(self._next, position.end_offset + 1)
        for ends in self._read_on():
            self._add(ends)
        kept = self._offsets > position.end_offset
        self._offsets, self._counts = self._offsets[kept], self._counts[kept]
        self._first = position.end_offset + 1
        return Lacking(int(self._counts.sum()), self._is_whole)

    def _read_on(self) -> Iterator[Ends]:
        # ENDs come in the order of their LSNs: after one above `lsn`, none at or below it comes
        if self._is_whole:
            return
        _, behind = log_bounds(self._reader, self._topic, self._log_start)
        while self._next < behind and not self._is_whole:
            stop = min(self._next + MESSAGES_AT_A_TIME, behind)
            yield read_ends_between(self._reader, self._topic, self._next, stop, self._log_start)
            self._next = stop

    def _add(self, ends: Ends) -> None:
        self._is_whole = bool(len(ends)) and bool(ends.lsn[-1] > self.lsn)
        own = ends.where(ends.lsn <= self.lsn)
        wanted = np.isin(own.table, [at for at, name in enumerate(own.tables) if name in self._tables])
        counts = np.bincount(own.end[wanted], own.counted[wanted], len(own)).astype(np.int64)
        self._offsets = np.concatenate([self._offsets, own.offset[counts > 0]])
        self._counts = np.concatenate([self._counts, counts[counts > 0]])
