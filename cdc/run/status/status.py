"""The answer of `cdc status`, and its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.source.slot import SlotState
from cdc.core.errors import CdcError
from cdc.core.position import Lsn, Position, format_lsn
from cdc.core.table_state import TableState, state_as_json
from cdc.core.transaction import TransactionEnd
from cdc.run.kept_views import ViewDescription
from cdc.run.status.lag import Lag


@dataclass(frozen=True, slots=True)
class FollowerState:
    """One follower: its position, rows by table (None where unknown), lag and problem.

    `not_counted`: the tables whose rows only `exact` counts, since all of them would have to be read.
    """

    position: Position | None
    rows: Mapping[str, int | None]
    lag: Lag | None
    problem: str | None = None
    not_counted: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        at = self.position
        return {
            "lsn": format_lsn(at.lsn) if at else None,
            "end_offset": at.end_offset if at else None,
            "offsets": {t: dict(p) for t, p in at.next_offsets.items()} if at else {},
            "rows": dict(self.rows),
            "not_counted": list(self.not_counted),
            "lag": self.lag.as_json() if self.lag else None,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that `cdc status` shows. A part that does not answer is None here, and one of the `problems`."""

    source_lsn: Lsn | None
    source_rows: Mapping[str, int | None]
    slot: SlotState | None
    log_end: TransactionEnd | None
    connector: ConnectorState | None
    followers: Mapping[str, FollowerState]
    states: Mapping[str, TableState]
    """By table, its state in the lake."""
    lake_writes: Mapping[str, int] | None
    """Per hour at the present rate of writing: commits, files, bytes, and requests of an object store."""
    problems: Sequence[CdcError]
    log_age: float | None = None
    """Seconds since the newest commit in the log, by the source's clock."""
    views: Sequence[ViewDescription] = ()
    notes: Sequence[str] = ()
    """What is as it has to be, and worth knowing: columns that Postgres does not send."""

    def as_json(self) -> dict[str, Any]:
        return {
            "source": {
                "lsn": format_lsn(self.source_lsn) if self.source_lsn is not None else None,
                "rows": dict(self.source_rows),
            },
            "slot": _slot_to_json(self.slot),
            "log": self._log_to_json(),
            "connector": {"name": c.name, "state": c.state, "tasks": [*c.tasks]} if (c := self.connector) else None,
            "tables": {table: state_as_json(state) for table, state in self.states.items()},
            "followers": {name: state.as_json() for name, state in self.followers.items()},
            "views": [view.as_json() for view in self.views],
            "lake_writes": self.lake_writes,
            "notes": list(self.notes),
            "problems": [str(problem) for problem in self.problems],
        }

    def _log_to_json(self) -> dict[str, Any] | None:
        if self.log_end is None:
            return None
        age = round(self.log_age, 3) if self.log_age is not None else None
        return {"lsn": format_lsn(self.log_end.lsn), "end_offset": self.log_end.offset, "seconds_since_commit": age}

    @property
    def exit_code(self) -> int:
        """The exit code of the first problem; 0 without one."""
        return next((problem.exit_code for problem in self.problems), 0)


def _slot_to_json(state: SlotState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    confirmed, restart = state.confirmed_lsn, state.restart_lsn
    return {
        "name": state.name,
        "active": state.active,
        "wal_status": state.wal_status,
        "confirmed_lsn": format_lsn(confirmed) if confirmed is not None else None,
        "restart_lsn": format_lsn(restart) if restart is not None else None,
        "retained_bytes": state.retained_bytes,
    }
