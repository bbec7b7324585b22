"""How the connector stands: does it run, has it failed, did somebody pause, stop or delete it?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cdc.core.errors import RECAPTURE, PreconditionError
from connect.capture.connect_client import ConnectClient

_IDLE: Final = ("PAUSED", "STOPPED")
"""Somebody asked for these (KIP-875): a connector does not leave them by itself."""
_FENCED: Final = ("InvalidProducerEpochException", "ProducerFencedException")
_LOST: Final = ("publication", "no longer available", "offset", "replication slot")
"""What a failure names that no restart mends: what the connector was to go on from is gone."""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector, as Kafka Connect tells of it: `state` is None where there is no such connector.

    `tasks` has the state of each task, `failure` one line of why the connector or a task has failed.
    """

    name: str
    state: str | None
    tasks: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def idle(self) -> str | None:
        """PAUSED or STOPPED, where the connector or a task of it is."""
        return next((state for state in (self.state, *self.tasks) if state in _IDLE), None)

    def __str__(self) -> str:
        if self.state is None:
            return f"connector {self.name} is not there"
        tasks = f"its task is {', '.join(self.tasks)}" if self.tasks else "it has no task"
        return f"connector {self.name} is {self.state}, {tasks}"


def look_up(client: ConnectClient, name: str) -> ConnectorState:
    """Ask Kafka Connect how a connector stands. Raises as `ConnectClient` does."""
    found = client.status(name)
    if found is None:
        return ConnectorState(name, None)
    tasks = found["tasks"]
    # a connector is RUNNING beside a task that FAILED
    failed = next((part for part in (found["connector"], *tasks) if part["state"] == "FAILED"), None)
    return ConnectorState(
        name, found["connector"]["state"], tuple(task["state"] for task in tasks), _reason(failed) if failed else None
    )


def is_fenced(state: ConnectorState) -> bool:
    """Has a task failed only because its producer was blocked for longer than a Kafka transaction may take?

    The broker has ended the transaction meanwhile; a new task goes on where the last whole one ended.
    """
    return state.failure is not None and any(sign in state.failure for sign in _FENCED)


def trouble(state: ConnectorState) -> PreconditionError | None:
    """What to tell of a connector that will not run again by itself; None while it runs, or is about to."""
    if state.state is None:
        return PreconditionError(
            f"Kafka Connect has no connector {state.name}: somebody deleted it", "`cdc bootstrap` makes it again"
        )
    if state.failure is not None:
        return PreconditionError(f"connector {state.name} failed: {state.failure}", _remedy(state.failure))
    if state.idle is not None:
        return PreconditionError(
            f"connector {state.name} is {state.idle}: somebody did that in Kafka Connect", "`cdc bootstrap` resumes it"
        )
    return None


def _remedy(reason: str) -> str:
    if "differ only by case" in reason:
        # in the log it stays, also once it is undone, where no trigger has taken the table out in time
        return f"rename one of them; without event triggers Debezium cannot pass what is in the log: then {RECAPTURE}"
    if any(sign in reason for sign in _LOST):
        return RECAPTURE
    return "mend the cause; `cdc bootstrap` starts it again"


def _reason(part: Mapping[str, Any]) -> str:
    lines = [line.strip() for line in str(part.get("trace", "")).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["no reason given"])[-1 if causes else 0]
