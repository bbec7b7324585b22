"""Pauses, resumes and restarts the capture, by Kafka Connect."""

from typing import Final

from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.source.slot_health import look_at_source, read_wal_rate
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.plural import format_bytes
from cdc.run.control.question import ControlVerb, Question
from cdc.run.health.result import format_duration
from cdc.run.pipeline import Pipeline

_HAPPENS: Final = {
    ControlVerb.PAUSE: "the connector rests after what it has in hand; readers see the source as of then",
    ControlVerb.RESUME: "the connector reads on from its last committed offset, and catches up",
    ControlVerb.RESTART: "the connector ends and starts with its task, also a failed one; it reads on from its last"
    " committed offset",
}
_STAYS: Final = "every commit, each once; followers go on with what the log has"


def ask(pipeline: Pipeline, verb: ControlVerb) -> Question:
    """What the verb would do to the capture and cost."""
    try:
        with pipeline.open_connect() as client:
            refused = _find_refusal(verb, look_up(client, pipeline.settings.connect.connector))
    except CdcError as silent:
        refused = silent
    return Question(verb, CAPTURE, _HAPPENS[verb], _describe_costs(pipeline, verb), _STAYS, refused)


def act(pipeline: Pipeline, verb: ControlVerb, by: str) -> str:
    """Do it, and wait until Kafka Connect says that it is done; returns what became of it."""
    name = pipeline.settings.connect.connector
    with pipeline.open_connect() as client:
        if verb is ControlVerb.PAUSE:
            # before the connector rests: a copy that starts meanwhile would wake it
            pipeline.requests.pause(CAPTURE, by)
            connector.pause(client, name)
        elif verb is ControlVerb.RESUME:
            connector.resume(client, name)
            pipeline.requests.resume(CAPTURE)
        else:
            connector.restart_running(client, name)
        found = look_up(client, name)
    if found.failure:
        raise PreconditionError(f"{found}: {found.failure}", "mend the cause; see `cdc status`")
    return str(found)


def _find_refusal(verb: ControlVerb, found: ConnectorState) -> CdcError | None:
    if found.state is None:
        return PreconditionError(f"Kafka Connect has no connector {found.name}", "`cdc bootstrap` makes it")
    if verb is ControlVerb.RESUME and found.failure is not None:
        return PreconditionError(
            f"connector {found.name} failed: {found.failure}", "mend the cause, then `cdc restart capture`"
        )
    if verb is ControlVerb.RESUME and found.idle is None:
        return PreconditionError(f"connector {found.name} is not paused", "see `cdc status`")
    if verb is ControlVerb.RESTART and found.idle is not None:
        return PreconditionError(f"connector {found.name} is {found.idle}", "`cdc resume capture` lets it go on")
    return None


def _describe_costs(pipeline: Pipeline, verb: ControlVerb) -> str:
    try:
        with pipeline.open_source() as connection:
            look = look_at_source(connection, pipeline.settings.source)
            rate = read_wal_rate(connection) if verb is ControlVerb.PAUSE else None
    except CdcError as silent:
        return f"not known: {silent.what}"
    if look.slot is None:
        return f"slot {pipeline.settings.source.slot} is missing, so nothing is kept"
    retained = format_bytes(look.slot.retained_bytes)
    if verb is ControlVerb.PAUSE:
        left = _describe_room(look.safe_bytes, rate)
        return f"the slot keeps all WAL from now on, {retained} already; {left}"
    if verb is ControlVerb.RESUME:
        return f"load until it has read the {retained} that the slot keeps"
    return "some seconds without commits in the log; the slot keeps them"


def _describe_room(safe_bytes: int | None, rate: float | None) -> str:
    """How long the slot may rest: by what may still be written, and how fast that is."""
    if safe_bytes is None:
        pace = f", at {format_bytes(round(3600 * rate))} an hour" if rate else ""
        return f"until the source's disk is full{pace}: max_slot_wal_keep_size has no limit"
    room = max(safe_bytes, 0)
    left = f", in {format_duration(room / rate)} at the present rate" if rate else ""
    return f"it is lost after {format_bytes(room)} more (max_slot_wal_keep_size){left}"
