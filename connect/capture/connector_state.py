"""The state of the connector: running, failed, paused, stopped or deleted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.text.error_text import pick_root_cause


class RunState(StrEnum):
    """The states that matter to us, of those that Connect has (`AbstractStatus.State`)."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"


_IDLE: Final = (RunState.PAUSED, RunState.STOPPED)
"""States that somebody has set (KIP-875): a connector does not leave them by itself."""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector's status in Kafka Connect: `state` is None if it does not exist.

    `tasks`: the state of each task. `failure`: one line with the reason why the connector or a task failed.
    """

    name: str
    state: str | None
    tasks: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def idle(self) -> str | None:
        """PAUSED or STOPPED if the connector or one of its tasks is; else None."""
        return next((state for state in (self.state, *self.tasks) if state in _IDLE), None)

    @property
    def is_running(self) -> bool:
        """Do the connector and its task run?"""
        return bool(self.tasks) and all(state == RunState.RUNNING for state in (self.state, *self.tasks))

    @property
    def rests(self) -> bool:
        """Is the connector PAUSED or STOPPED, and does no task of it run any more?"""
        return self.idle is not None and RunState.RUNNING not in (self.state, *self.tasks)

    def __str__(self) -> str:
        if self.state is None:
            return f"connector {self.name} is not there"
        tasks = f"its task is {', '.join(self.tasks)}" if self.tasks else "it has no task"
        return f"connector {self.name} is {self.state}, {tasks}"


def look_up(client: ConnectClient, name: str) -> ConnectorState:
    """Read a connector's state from Kafka Connect. Raises like `ConnectClient`."""
    found = client.status(name)
    if found is None:
        # one made a moment ago has a configuration before any worker writes a status of it
        return ConnectorState(name, None if client.config(name) is None else RunState.UNASSIGNED)
    # a connector stays RUNNING while a task of it is FAILED
    failed = next((part for part in (found.connector, *found.tasks) if part.state == RunState.FAILED), None)
    reason = pick_root_cause(failed.trace or "") or "no reason given" if failed else None
    return ConnectorState(name, found.connector.state, tuple(task.state for task in found.tasks), reason)
