"""Measures how far a follower is behind its source, by the tables that it follows: heartbeats do not count."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.columns.netting.ends import Ends
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a follower is behind its source.

    `changes`: changes in the log that it lacks. `bytes`: of WAL between its position and the source's end. `seconds`:
    since the oldest lacking change was committed. All are 0 when it is caught up: it lacks no change, and the log is up
    to date. When the log is not, `bytes` and `seconds` count from the log's newest commit.
    """

    changes: int
    bytes: int
    seconds: float
    is_caught_up: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "changes": self.changes,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "caught_up": self.is_caught_up,
        }


@dataclass(frozen=True, slots=True)
class LagMeter:
    """Measures positions against one look at source and log.

    `lsn` and `now`: the source's end and clock (seconds since 1970). `ends`: the log's ENDs behind some position,
    old ones in bundles.
    """

    tables: Sequence[TableName]
    lsn: Lsn | None
    now: float
    ends: Ends
    is_log_current: bool

    def measure(self, position: Position | None) -> Lag | None:
        """The lag of this position; None when position or source are not known."""
        if self.lsn is None or position is None:
            return None
        tables = set(map(str, self.tables))
        unapplied = self.ends.where(self.ends.offset > position.end_offset)
        # counted by the ENDs: they name the changes per table, so no change topic has to be read
        changes = sum(unapplied.counts(tables).values())
        if not changes and self.is_log_current:
            return Lag(0, 0, 0.0, True)
        # the follower may have passed the source's end since that was read: no lag is below 0
        return Lag(changes, max(self.lsn - position.lsn, 0), max(self._age(unapplied, tables), 0.0), False)

    def _age(self, unapplied: Ends, tables: set[str]) -> float:
        """Seconds since the first lacking commit, or since the newest one in the log."""
        first = unapplied.first_touching(tables)
        if first is not None:
            return self.now - float(unapplied.committed_ms[first]) / 1000
        return self.now - float(self.ends.committed_ms[-1]) / 1000 if len(self.ends) else 0.0
