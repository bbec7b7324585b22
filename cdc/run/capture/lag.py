"""How far a follower is behind its source: counted by what it follows, not by heartbeats and other tables' changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.columns.netting.transactions import Ends
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a follower is behind: changes in the log that it lacks, bytes of WAL, seconds since the oldest of these
    changes was committed.

    Where it lacks none and the log is up to date, it is caught up, and all three are 0. Where the log is not, bytes and
    seconds are those from its newest commit on: nobody knows what lies behind that.
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
    """What a position is measured by: the tables that are followed, where the source stands, and when, by its own clock
    (seconds since 1970); the log's ENDs from some position on; whether the log is up to date."""

    tables: Sequence[TableName]
    lsn: Lsn | None
    now: float
    ends: Ends
    is_log_current: bool

    def lag(self, position: Position | None) -> Lag | None:
        """How far this position is behind; None where position or source are not known."""
        if self.lsn is None or position is None:
            return None
        tables = set(map(str, self.tables))
        unapplied = self.ends.where(self.ends.offset > position.end_offset)
        changes = sum(unapplied.counts(tables).values())
        if not changes and self.is_log_current:
            return Lag(0, 0, 0.0, True)
        # a position may be younger than the source's end was: no lag is below 0
        return Lag(changes, max(self.lsn - position.lsn, 0), max(self._age(unapplied, tables), 0.0), False)

    def _age(self, unapplied: Ends, tables: set[str]) -> float:
        """Seconds since the first commit that is lacking; since the newest in the log, where none is."""
        lacking = next((end for end in unapplied.values() if tables & end.counts.keys()), None)
        newest = lacking or (self.ends.last if len(self.ends) else None)
        return self.now - newest.committed_ms / 1000 if newest else 0.0
