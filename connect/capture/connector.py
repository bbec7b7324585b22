"""The life of the connector over Kafka Connect's REST interface: start, stop, start anew."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import RunState, look_up
from cdc.connect.capture.name_patterns import table_pattern
from cdc.connect.capture.offsets import forget_offsets
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.core.errors import PreconditionError
from cdc.core.fail_points import reach
from cdc.core.table import TableName
from cdc.core.waiting import wait_until
from cdc.log.settings import LogSettings

STOP_SECONDS = 60.0
RESTART_SECONDS = 10.0
LEAVE_SECONDS = 5.0
"""For the old task of a restart to end."""
PASSWORD: Final = "database.password"  # noqa: S105 - a property's name
REFERENCE: Final = "${"
"""How what Connect's own config providers resolve begins."""


def start(client: ConnectClient, name: str, config: dict[str, str]) -> str | None:
    """Put the configuration if it differs, and start the connector if it does not run; returns a note, or None.

    Raises PreconditionError when Connect lacks Debezium's plugin or refuses the configuration.
    """
    # Connect adds the name to the configuration that it stores
    if client.config(name) == {**config, "name": name}:
        return _revive(client, name)
    # before the stop: a configuration that Connect refuses must not end a running connector
    _check_config(client, name, config)
    known = client.config(name) is not None
    if known:
        _stop(client, name)
    client.put(name, config)
    # a stopped connector stays stopped under a new configuration (KIP-875)
    client.resume(name)
    return "started with another configuration" if known else "started"


def _revive(client: ConnectClient, name: str) -> str | None:
    """Resume or restart the connector: Kafka Connect never does that by itself; returns a note, or None."""
    found = look_up(client, name)
    if found.idle is not None:
        # the call returns before the connector resumes; a failed task stays failed
        client.resume(name)
        wait_until(lambda: look_up(client, name).idle is None, RESTART_SECONDS)
    if found.failure is not None:
        restart(client, name)
        return f"started again; it had failed: {found.failure}"
    return f"resumed; it was {found.idle}" if found.idle is not None else None


def restart(client: ConnectClient, name: str, *, whole: bool = False) -> bool:
    """Restart what has failed, or all if `whole`, and wait until Connect does not report the old failure any more.

    Returns False for a connector that is still being started.
    """
    # a start waits for open transactions in the topic of offsets; a task that was killed has one for up to a minute
    if not client.restart(name, whole=whole):
        return False
    # the call returns before the restart (KIP-745): too early a look sees the old failure
    wait_until(lambda: failure(client, name) is None, RESTART_SECONDS)
    return True


def send_password(client: ConnectClient, name: str, password: str) -> bool:
    """Give the connector another password of the source, and restart it; returns whether it had an older one.

    A reference, which Connect resolves by itself, stays.
    """
    stored = client.config(name) or {}
    known = stored.get(PASSWORD, password)
    if known == password or REFERENCE in known:
        return False
    client.put(name, {**stored, PASSWORD: password})
    restart(client, name, whole=True)
    return True


def pause(client: ConnectClient, name: str) -> None:
    """Let the connector rest, with its session on the source. Raises PreconditionError when it does not."""
    client.pause(name)
    # a failed task stays failed
    if not wait_until(lambda: look_up(client, name).rests, STOP_SECONDS):
        raise PreconditionError(f"connector {name} does not pause", "see Kafka Connect's log")


def resume(client: ConnectClient, name: str) -> None:
    """Let a connector go on that was paused or stopped, and wait for its task, which may fail."""
    # the call returns before the connector resumes
    client.resume(name)
    await_running(client, name)


def await_running(client: ConnectClient, name: str) -> None:
    """Wait until the connector and its task run, or have failed. Raises PreconditionError when they do neither."""
    if not wait_until(lambda: (found := look_up(client, name)).is_running or found.failure is not None, STOP_SECONDS):
        raise PreconditionError(f"{look_up(client, name)}, and does not run", "see Kafka Connect's log")


def restart_running(client: ConnectClient, name: str) -> None:
    """Restart all of the connector, failed or not, and wait until it runs again. Raises like `await_running`."""
    restart(client, name, whole=True)
    # the call returns before the old task ends; a look may miss the moment between that and the new one
    wait_until(lambda: not look_up(client, name).is_running, LEAVE_SECONDS, every=0.05)
    await_running(client, name)


def halt(client: ConnectClient, name: str) -> None:
    """Stop the connector, if it exists, and wait for its tasks. Raises PreconditionError when it does not stop."""
    if look_up(client, name).state is not None:
        _stop(client, name)


def remove(client: ConnectClient, name: str, log: LogSettings) -> None:
    """Stop the connector, forget its offsets, and delete it, if it exists. Raises PreconditionError like `halt`."""
    if client.config(name) is None:
        return
    # they survive a deleted connector, and would be those of the next of this name
    forget(client, name, log)
    client.delete(name)


def forget(client: ConnectClient, name: str, log: LogSettings) -> None:
    """Stop the connector, if it exists, and forget its offsets, until `start`. Raises PreconditionError like `halt`.

    `log`: of the pipeline that the connector captures for.
    """
    if client.config(name) is not None:
        _stop(client, name)
        forget_offsets(client, name, log)


def start_anew(client: ConnectClient, name: str, config: dict[str, str], log: LogSettings) -> None:
    """Start a connector from the beginning of its slot, without the offsets of an earlier one of the same name.

    Raises PreconditionError like `start`.
    """
    _check_config(client, name, config)
    # offsets survive a deleted connector, and can only be deleted while a stopped one of that name exists
    if client.config(name) is None:
        client.make_stopped(name, config)
    _stop(client, name)
    reach("connector.stopped")
    forget_offsets(client, name, log)
    reach("connector.forgotten")
    client.put(name, config)
    reach("connector.put")
    client.resume(name)
    reach("connector.resumed")


def check_debezium(client: ConnectClient) -> None:
    """Raise PreconditionError when Connect has no Debezium."""
    check_has_debezium(client.plugins())


def check_has_debezium(plugins: Collection[str]) -> None:
    """Raise PreconditionError when Debezium's class is not among these."""
    if CONNECTOR_CLASS not in plugins:
        raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")


def _check_config(client: ConnectClient, name: str, config: Mapping[str, str]) -> None:
    check_debezium(client)
    problems = client.problems({**config, "name": name})
    if problems:
        raise PreconditionError("Kafka Connect refuses the connector: " + "; ".join(problems), "correct cdc.yaml")


def _stop(client: ConnectClient, name: str) -> None:
    """Stop it and wait for its tasks: an old task must not write after a new one starts."""
    client.stop(name)
    if not wait_until(lambda: _has_stopped(client, name), STOP_SECONDS):
        raise PreconditionError(f"connector {name} does not stop", "see Kafka Connect's log")


def _has_stopped(client: ConnectClient, name: str) -> bool:
    found = look_up(client, name)
    # Connect reports STOPPED before the tasks have ended
    return found.state is None or (found.state == RunState.STOPPED and not found.tasks)


def failure(client: ConnectClient, name: str) -> str | None:
    """One line with the reason why the connector or a task failed; None if none has."""
    return look_up(client, name).failure


def captures(client: ConnectClient, name: str, tables: Iterable[TableName]) -> bool:
    """Is one of these tables in the connector's configuration?"""
    # a comma within a name is escaped, so each entry is one table
    listed = (client.config(name) or {}).get("table.include.list", "").split(",")
    return any(table_pattern(table) in listed for table in tables)
