"""Pauses, resumes and restarts the capture, by Kafka Connect."""

from contextlib import suppress
from typing import Final

from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.slot_budget import BudgetPolicy
from cdc.connect.source.obstacles import check_not_lost
from cdc.connect.source.slots.slot_health import look_at_source, read_wal_rate
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.text.plural import format_bytes
from cdc.run.control.question import ControlVerb, Question
from cdc.run.health.result import format_duration
from cdc.run.health.slot_budget import SERVER_LIMIT, SlotRoom, find_room
from cdc.run.health.slot_drop import SlotDropPlan
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
            found = look_up(client, pipeline.settings.connect.connector)
            # a pause that has been noted is taken back, whatever has become of the connector
            is_noted = verb is ControlVerb.RESUME and pipeline.requests.is_paused(CAPTURE)
            refused = None if is_noted else _find_refusal(verb, found)
    except CdcError as silent:
        refused = silent
    if verb is ControlVerb.RESUME:
        # whatever the connector is like: it begins anew
        refused = None if SlotDropPlan.read(pipeline) else refused or _find_loss(pipeline)
    return Question(verb, CAPTURE, _HAPPENS[verb], _describe_costs(pipeline, verb), _STAYS, refused)


def act(pipeline: Pipeline, verb: ControlVerb, by: str) -> str:
    """Do it, and wait until Kafka Connect says that it is done; returns what became of it."""
    name = pipeline.settings.connect.connector
    if verb is ControlVerb.RESUME and (plan := SlotDropPlan.read(pipeline)):
        # without its slot it would only fail
        pipeline.requests.resume(CAPTURE)
        return f"the capture is resumed; {plan.describe()}"
    with pipeline.open_connect() as client:
        if verb is ControlVerb.PAUSE:
            # before the connector rests: a copy that starts meanwhile would wake it
            pipeline.requests.pause(CAPTURE, by)
            connector.pause(client, name)
        elif verb is ControlVerb.RESUME:
            pipeline.requests.resume(CAPTURE)
            if look_up(client, name).idle is not None:
                connector.resume(client, name)
        else:
            connector.restart_running(client, name)
        found = look_up(client, name)
    if found.failure:
        raise PreconditionError(f"{found}: {found.failure}", "mend the cause; see `cdc status`")
    return str(found)


def _find_loss(pipeline: Pipeline) -> HistoryLostError | None:
    """What the source has lost, so that the connector would not go on; None where it does not answer."""
    with suppress(UnreachableError), pipeline.open_source() as connection:
        try:
            check_not_lost(connection, pipeline.settings.source)
        except HistoryLostError as lost:
            return lost
    return None


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
        budget = pipeline.settings.source.slot_budget
        left = _describe_room(find_room(look, budget), rate, drops=budget.on_exceeded is BudgetPolicy.DROP)
        return f"the slot keeps all WAL from now on, {retained} already; {left}"
    if verb is ControlVerb.RESUME:
        return f"load until it has read the {retained} that the slot keeps"
    return "some seconds without commits in the log; the slot keeps them"


def _describe_room(room: SlotRoom | None, rate: float | None, *, drops: bool = False) -> str:
    """How long the slot may rest: by what may still be written, and how fast that is. `drops`: above our own limit."""
    if room is None:
        pace = f", at {format_bytes(round(3600 * rate))} an hour" if rate else ""
        return f"until the source's disk is full{pace}: max_slot_wal_keep_size has no limit"
    left = max(room.left_bytes, 0)
    time_left = f", in {format_duration(left / rate)} at the present rate" if rate else ""
    becomes = "lost" if room.name == SERVER_LIMIT else "dropped, and all tables copied again," if drops else "too large"
    return f"it is {becomes} after {format_bytes(left)} more ({room.name}){time_left}"
