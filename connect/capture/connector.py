"""The life of the connector over Kafka Connect's REST interface: start, stop, start anew."""

import time
from collections.abc import Callable, Iterable, Mapping

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from connect.capture.connect_client import ConnectClient
from connect.capture.connector_state import look_up
from connect.capture.debezium_properties import CONNECTOR_CLASS, table_pattern

STOP_SECONDS = 60.0
RESTART_SECONDS = 10.0


def start(client: ConnectClient, name: str, config: dict[str, str]) -> str | None:
    """Give Connect the configuration, if it has not got it yet, and start what failed; says what was done, if anything.

    Raises PreconditionError when Connect lacks Debezium's plugin or refuses the configuration.
    """
    if client.config(name) == {**config, "name": name}:
        return _revive(client, name)
    _check_config(client, name, config)
    known = client.config(name) is not None
    if known:
        _stop(client, name)
    client.put(name, config)
    # a connector that was stopped stays so under a new configuration (KIP-875)
    client.resume(name)
    return "started with another configuration" if known else "started"


def _revive(client: ConnectClient, name: str) -> str | None:
    """Kafka Connect never starts a failed task again by itself, nor one that somebody paused or stopped."""
    found = look_up(client, name)
    if found.idle is not None:
        # a task that had failed before stays failed; resuming is answered before it has happened, too
        client.resume(name)
        _wait_until(RESTART_SECONDS, lambda: look_up(client, name).idle is None)
    if found.failure is not None:
        client.restart(name)
        # a restart is accepted before it happens (KIP-745): whoever looks too early sees the old failure
        _wait_until(RESTART_SECONDS, lambda: failure(client, name) is None)
        return f"started again; it had failed: {found.failure}"
    return f"resumed; it was {found.idle}" if found.idle is not None else None


def halt(client: ConnectClient, name: str) -> None:
    """Stop the connector, if there is one, until no task is left. Raises PreconditionError when it does not stop."""
    if look_up(client, name).state is not None:
        _stop(client, name)


def start_anew(client: ConnectClient, name: str, config: dict[str, str]) -> None:
    """Start a connector from the beginning of its slot: what it, or another of its name, had read before is forgotten.

    Raises PreconditionError as `start` does.
    """
    _check_config(client, name, config)
    # offsets outlive a connector that was deleted, and can be forgotten while one of the name is there and stopped
    if client.config(name) is None:
        client.make_stopped(name, config)
    _stop(client, name)
    client.forget_offsets(name)
    client.put(name, config)
    client.resume(name)


def _check_config(client: ConnectClient, name: str, config: Mapping[str, str]) -> None:
    if CONNECTOR_CLASS not in client.plugins():
        raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")
    problems = client.problems({**config, "name": name})
    if problems:
        raise PreconditionError("Kafka Connect refuses the connector: " + "; ".join(problems), "correct cdc.yaml")


def _stop(client: ConnectClient, name: str) -> None:
    """Stop it until no task is left: a task with the old list of tables must not write behind a new one's start."""
    client.stop(name)
    if not _wait_until(STOP_SECONDS, lambda: _has_stopped(client, name)):
        raise PreconditionError(f"connector {name} does not stop", "see Kafka Connect's log")


def _has_stopped(client: ConnectClient, name: str) -> bool:
    found = look_up(client, name)
    return found.state is None or (found.state == "STOPPED" and not found.tasks)


def _wait_until(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def failure(client: ConnectClient, name: str) -> str | None:
    """The first line of what a failed connector or task says; None while none has failed."""
    return look_up(client, name).failure


def captures(client: ConnectClient, name: str, tables: Iterable[TableName]) -> bool:
    """Is one of these tables among those that the connector is to send?"""
    listed = (client.config(name) or {}).get("table.include.list", "").split(",")
    return any(table_pattern(table) in listed for table in tables)
