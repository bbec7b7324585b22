"""The result of a verification, and its JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cdc.columns.rows.compare import Comparison
from cdc.core.errors import CdcError, DivergenceError, PreconditionError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName

EQUAL, DIFFERENT, MOVED, STOPPED = "equal", "different", "moved", "stopped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One table of one follower.

    It was compared; or it is `stopped` in the follower; or the follower may have applied `moved` changes above the LSN.
    With a comparison, `moved` keys are left that changed during each look, and all others were compared. `left`: those
    that have a row on either side, by column; None where not all are known. `history_of`: the table, if a history was
    compared.
    """

    comparison: Comparison | None
    moved: int = 0
    stopped: CdcError | None = None
    left: tuple[Mapping[str, str | None], ...] | None = None
    history_of: TableName | None = None

    @property
    def word(self) -> str:
        if self.stopped is not None:
            return STOPPED
        if self.comparison is not None and not self.comparison.equal:
            return DIFFERENT
        return MOVED if self.comparison is None or self.moved else EQUAL

    def as_json(self) -> dict[str, Any]:
        if self.stopped is not None:
            return {"verdict": STOPPED, "reason": str(self.stopped)}
        if self.comparison is None:
            return {"verdict": MOVED, "changes_since": self.moved}
        left = {"moved_keys": self.moved} if self.moved else {}
        return {"verdict": self.word, **asdict(self.comparison), **left}


@dataclass(frozen=True, slots=True)
class Report:
    """Verdicts by follower and table, at one LSN of the source."""

    lsn: Lsn
    followers: Mapping[str, Mapping[TableName, Verdict]]
    stopped: Mapping[TableName, CdcError] = field(default_factory=dict)
    """Stopped tables, which were not compared."""
    incomparable: Mapping[TableName, CdcError] = field(default_factory=dict)
    """Tables that cannot be compared: the source has values that no follower can hold, or their schemas differ."""

    def with_further(self, verdicts: Mapping[str, Mapping[TableName, Verdict]]) -> "Report":
        """The report with further verdicts by follower: of views and histories."""
        names = dict.fromkeys([*self.followers, *verdicts])
        return replace(self, followers={n: {**self.followers.get(n, {}), **verdicts.get(n, {})} for n in names})

    def _verdicts(self) -> list[Verdict]:
        return [verdict for tables in self.followers.values() for verdict in tables.values()]

    @property
    def is_equal(self) -> bool:
        not_compared = self.stopped or self.incomparable
        return not not_compared and all(verdict.word == EQUAL for verdict in self._verdicts())

    @property
    def follower_stops(self) -> list[str]:
        """One line for each table that is stopped in one follower."""
        return [
            f"{name}: {verdict.stopped}"
            for name, tables in self.followers.items()
            for verdict in tables.values()
            if verdict.stopped is not None
        ]

    @property
    def has_differences(self) -> bool:
        return any(verdict.word == DIFFERENT for verdict in self._verdicts())

    def check_equal(self) -> None:
        """Raise DivergenceError when rows differ, PreconditionError when something was not compared."""
        # differences first: their exit code matters more than a table that was not compared
        if self.has_differences:
            raise DivergenceError("followers differ from the source", "`cdc repair` puts the keys above right")
        if self.stopped or self.incomparable or self.follower_stops:
            raise PreconditionError("not all tables could be compared", "see above")
        if not self.is_equal:
            raise PreconditionError("some tables changed while they were compared", "try again when writes are few")

    def as_json(self) -> dict[str, Any]:
        followers = {
            name: {str(table): verdict.as_json() for table, verdict in tables.items()}
            for name, tables in self.followers.items()
        }
        return {
            "lsn": format_lsn(self.lsn),
            "equal": self.is_equal,
            "followers": followers,
            "stopped": {str(name): str(reason) for name, reason in self.stopped.items()},
            "incomparable": {str(name): str(reason) for name, reason in self.incomparable.items()},
        }
