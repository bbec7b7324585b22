"""What needs somebody of the slot and of the connector's starts: WAL that is gone or will be, and for whom; no I/O."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.slot_budget import BudgetPolicy
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.text.plural import format_bytes, format_count
from cdc.run.health.slot_budget import OWN_LIMIT
from cdc.run.health.slot_holder import HELD_BYTES
from cdc.run.status.asking.facts import Facts, Trouble
from cdc.run.status.things import Level, Slot

URGENT_SECONDS: Final = 1800.0
"""History that is lost sooner than this is a matter of now."""
TODAY_SECONDS: Final = 6 * 3600.0
_FULL: Final = {
    BudgetPolicy.WARN: "The source's disk may run full: then nobody can write to it.",
    BudgetPolicy.DROP: "Then `cdc follow` drops the slot, begins the capture anew, and copies all tables again.",
}


def find_slot_problems(slot: Slot | None, lost: CdcError | None, dropped: CdcError | None = None) -> Iterator[Trouble]:
    """The findings of the slot. `dropped`: it was, by `cdc follow`, and the capture has not begun anew."""
    if dropped is not None:
        hurts = "Readers see the rows of then until all tables are copied again."
        yield Trouble("slot.dropped", Level.NOW, dropped, "The slot was dropped; the tables are copied again", hurts)
    elif lost is not None:
        yield Trouble("slot.lost", Level.NOW, lost, "History is lost: only `cdc recapture` helps")
    elif slot is not None and slot.retained_bytes is not None:
        if (found := _find_little_room(slot)) is not None:
            yield found
        elif slot.release and slot.retained_bytes >= HELD_BYTES:
            what = f"slot {slot.name} keeps {format_bytes(slot.retained_bytes)} of WAL for {slot.held_by}"
            error = PreconditionError(what, f"end it: {slot.release}")
            yield Trouble("slot.held", Level.TODAY, error, "A transaction holds the slot", is_failure=False)


def _find_little_room(slot: Slot) -> Trouble | None:
    """The finding of a slot that is above its limit, or will be soon."""
    seconds, left, kept = slot.full_in_seconds, slot.safe_bytes, slot.retained_bytes or 0
    if slot.limit_bytes is None or left is None:
        return None
    is_over = left <= 0 or slot.wal_status == "unreserved"
    if not is_over and (seconds is None or seconds > TODAY_SECONDS):
        return None
    is_ours = slot.limited_by == OWN_LIMIT
    hurts = "Then Postgres drops the slot's WAL, and only `cdc recapture` helps: a new copy of all tables."
    if is_ours:
        hurts = _FULL[BudgetPolicy(slot.policy or BudgetPolicy.WARN)]
    holder = f" for {slot.held_by}" if slot.held_by else ""
    error = PreconditionError(
        f"slot {slot.name} keeps {format_bytes(kept)} of WAL{holder}, of {format_bytes(slot.limit_bytes)}"
        f" by {slot.limited_by}",
        f"{_release(slot)}, or raise {slot.limited_by}",
    )
    if is_over:
        return Trouble("slot.full", Level.NOW, error, "The slot keeps more than it may", hurts, is_failure=False)
    level = Level.NOW if seconds is not None and seconds < URGENT_SECONDS else Level.TODAY
    return Trouble("slot.exhaustion", level, error, "The slot is full in {left}", hurts, is_failure=False)


def _release(slot: Slot) -> str:
    return f"end it: {slot.release}" if slot.release else "let the capture go on, see `cdc status`"


def find_restart_problems(facts: Facts) -> Iterator[Trouble]:
    """The findings of a connector whose task `cdc follow` has started again, or does not start any more."""
    found = facts.restarts
    if found is None or not any(stream.is_followed for stream in facts.streams.values()):
        return
    what = f"the task of the connector was started again {format_count(found.starts, 'time')} of {found.most}"
    failed = f"{what}; it had failed: {found.failure}"
    # why it is not started is what the capture's own problem says
    why = f"{failed}; it is not now: {found.held_back}" if found.held_back else failed
    remedy = "" if found.held_back else "it mends itself unless that comes again; see Kafka Connect's log"
    yield Trouble("capture.restarts", Level.KNOW, PreconditionError(why, remedy), what, is_failure=False)
