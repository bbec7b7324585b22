"""Drops a slot that endangers the source's disk, where `source.slot_budget` says so: only this pipeline's, and only
above its limit for a while, or when Postgres has given it up. What comes behind that is in `begin_anew.py`."""

import time
from collections.abc import Callable
from typing import Final

from psycopg import Connection

from cdc.connect.capture import connector
from cdc.connect.slot_budget import BudgetPolicy
from cdc.connect.source import registration
from cdc.connect.source.slots import slot
from cdc.connect.source.slots.drop_intent import DropIntent
from cdc.connect.source.slots.slot_health import SourceLook, look_at_source
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import format_lsn
from cdc.core.text.lines import WarningLine
from cdc.core.text.plural import format_bytes
from cdc.core.waiting import Deadline
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.slot_budget import OWN_LIMIT, BudgetWatch
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.pipeline import Pipeline

DRAIN_SECONDS = 60.0
"""How long the lake may still apply what the log has: histories get those versions."""
_LEAST_FREED: Final = 0.5
"""A drop that frees a smaller part of what the slot keeps is of no use: another slot keeps the rest, and stays."""


class SlotGuard:
    """Watches one pipeline's slot, for the process that follows its lake. `clock`: in seconds, which nobody sets."""

    def __init__(
        self, pipeline: Pipeline, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline = pipeline
        self._say = say
        self._clock = clock
        budget = pipeline.settings.source.slot_budget
        self._watch = BudgetWatch(budget.max_wal_bytes) if budget.max_wal_bytes else None
        self._acts = budget.on_exceeded is BudgetPolicy.DROP
        self._intent = DropIntent(pipeline.settings.source)
        self._told = ""
        self._is_announced = False
        self._dropped: tuple[HistoryLostError, Deadline] | None = None

    @property
    def has_dropped(self) -> bool:
        return self._dropped is not None

    def look(self) -> HistoryLostError | None:
        """Look once; returns what ends all streams: the slot was dropped, and the lake has all of the log."""
        if self._dropped is not None:
            return self._end()
        if not self._acts:
            return None
        try:
            with self._pipeline.open_source() as connection:
                look = look_at_source(connection, self._pipeline.settings.source)
                if why := self._find_reason(look):
                    self._give_up(connection, look, why)
                else:
                    self.close()
        except UnreachableError:
            # who checks the capture reports that
            return None
        except CdcError as error:
            self._tell(f"slot {self._pipeline.settings.source.slot} is not dropped: {error}", error)
        return None

    def close(self) -> None:
        """Other guards count with this slot again."""
        self._intent.close()

    def _find_reason(self, look: SourceLook) -> str | None:
        """Why the slot is to be given up; None while it is not."""
        found = look.slot
        if found is None:
            return None
        if found.wal_status == "lost":
            return slot.describe_lost(found.name, found.invalidated).what
        if self._watch is None or not self._watch.note(self._clock(), found.retained_bytes):
            return None
        limit = format_bytes(self._pipeline.settings.source.slot_budget.max_wal_bytes or 0)
        return f"it keeps {format_bytes(found.retained_bytes)}, above the {limit} of {OWN_LIMIT}"

    def _give_up(self, connection: Connection, look: SourceLook, why: str) -> None:
        plan = self._plan(connection, look, why)
        # before the drop: a process that is killed behind it is followed by one that goes on
        plan.write(self._pipeline)
        if not self._is_announced:
            self._is_announced = True
            for line in plan.lines(self._pipeline):
                self._say(WarningLine.of(f"capture: {line}", plan.describe()))
        try:
            self._drop(connection)
        except CdcError:
            self._pipeline.requests.forget_recapture()
            raise
        self._dropped = plan.describe(), Deadline(DRAIN_SECONDS)
        self.close()

    def _plan(self, connection: Connection, look: SourceLook, why: str) -> SlotDropPlan:
        """Make the plan. Raises PreconditionError where the slot is not this pipeline's, or a drop frees too little."""
        source, found = self._pipeline.settings.source, look.slot
        assert found is not None
        registered = registration.read_registration(connection, source, self._pipeline.name)
        if registered is None or registered.slot != found.name or not slot.is_own_kind(connection, source):
            raise PreconditionError(f"it is not the slot of pipeline {self._pipeline.name}", "see `cdc doctor`")
        position = self._pipeline.lake_follower.position()
        if position is None:
            raise PreconditionError("the lake has no copy yet", "run `cdc bootstrap`")
        if found.wal_status != "lost":
            self._check_use(look, found)
        return SlotDropPlan(
            at=time.time(),
            slot=found.name,
            why=why,
            retained_bytes=found.retained_bytes,
            freed_bytes=look.freed_bytes,
            lsn=format_lsn(position.lsn),
            capture=position.log_start.number,
        )

    def _check_use(self, look: SourceLook, found: slot.SlotState) -> None:
        """Raise PreconditionError where another slot that stays keeps the WAL that a drop is to free."""
        # before the judgment: of two guards that wait for each other's slot, each has to know of the other
        self._intent.tell()
        if look.freed_bytes < _LEAST_FREED * found.retained_bytes:
            kept = f"slot {look.other} keeps all but {format_bytes(look.freed_bytes)} of the same WAL"
            raise PreconditionError(kept, "let that one go on, or drop it")

    def _drop(self, connection: Connection) -> None:
        """Stop the connector, where Kafka Connect answers, and drop the slot."""
        name = self._pipeline.settings.source.slot
        try:
            with self._pipeline.open_connect() as client:
                connector.halt(client, self._pipeline.settings.connect.connector)
        except CdcError as silent:
            self._say(WarningLine.of(f"capture: its connector is not stopped: {silent}", silent))
            slot.end_reader(connection, self._pipeline.settings.source)
        slot.drop_own(connection, self._pipeline.settings.source)
        self._say(WarningLine(f"capture: slot {name} was dropped"))

    def _end(self) -> HistoryLostError | None:
        assert self._dropped is not None
        error, deadline = self._dropped
        return error if deadline.is_past or self._is_log_applied() else None

    def _is_log_applied(self) -> bool:
        try:
            newest, position = CaptureObserver(self._pipeline).newest()[0], self._pipeline.lake_follower.position()
        except CdcError:
            return False
        return newest is None or (position is not None and position.lsn >= newest)

    def _tell(self, line: str, error: CdcError) -> None:
        if line != self._told:
            self._told = line
            self._say(WarningLine.of(f"capture: {line}", error))
