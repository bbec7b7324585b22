"""Why a connector does not run, and what helps: asked of Kafka Connect, the slot and the publication.

What a failure's text says is shown, and never decides: it is Debezium's, the driver's or the server's, in the server's
language.
"""

from typing import Final

from psycopg import Connection

from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.settings import SourceSettings
from cdc.connect.source.obstacles import find_obstacle
from cdc.connect.source.slots import slot
from cdc.core.errors import RECAPTURE, CdcError, PreconditionError

MEND: Final = "mend the cause; `cdc bootstrap` starts it again"
PASS_OVER: Final = f"mend the cause, then the same again; one that lies in the WAL is passed over: {RECAPTURE}"
"""What helps behind a start of the connector, at which it has failed again."""
_FENCED: Final = ("InvalidProducerEpochException", "ProducerFencedException")


def is_fenced(state: ConnectorState) -> bool:
    """Has a task failed only because its producer was blocked longer than the transaction time-out?

    The broker has aborted the transaction; a new task resumes after the last committed one.
    """
    return state.failure is not None and any(sign in state.failure for sign in _FENCED)


def describe_trouble(state: ConnectorState) -> CdcError | None:
    """Make the error for a connector that will not run again by itself, as Kafka Connect knows it; None while it runs
    or starts."""
    if state.failure is not None:
        return PreconditionError(f"connector {state.name} failed: {state.failure}", MEND)
    if state.state is None:
        return PreconditionError(
            f"Kafka Connect has no connector {state.name}: somebody deleted it", "`cdc bootstrap` makes it again"
        )
    if state.idle is not None:
        return PreconditionError(
            f"connector {state.name} is {state.idle}: somebody did that in Kafka Connect",
            "`cdc resume capture` lets it go on",
        )
    return None


def find_trouble(
    connection: Connection, source: SourceSettings, state: ConnectorState, otherwise: str = MEND
) -> CdcError | None:
    """Make the same error, of a failed connector with what the source knows of it. `connection` is in autocommit.

    `otherwise`: what helps if the source has nothing against going on.
    """
    trouble = describe_trouble(state)
    if trouble is None or state.failure is None:
        return trouble
    if obstacle := find_obstacle(connection, source):
        return type(obstacle).from_text(f"{trouble.what}; {obstacle.what}", obstacle.remedy)
    return PreconditionError(trouble.what, _find_reader(connection, source) or otherwise)


def _find_reader(connection: Connection, source: SourceSettings) -> str | None:
    """What helps when another session reads the slot: one of an earlier task, say, whose worker was killed."""
    found = slot.read_slot(connection, source)
    if found is None or found.active_pid is None:
        return None
    return (
        f"slot {found.name} is read by another session: end it (SELECT pg_terminate_backend({found.active_pid})), or"
        " wait until Postgres does (wal_sender_timeout); then `cdc bootstrap` starts the connector again"
    )
