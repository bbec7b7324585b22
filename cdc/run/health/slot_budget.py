"""How much WAL the slot may still keep, and the rule for one that has too much; no I/O."""

from dataclasses import dataclass
from typing import Final

from cdc.connect.slot_budget import SlotBudget
from cdc.connect.source.slots.slot_health import SourceLook

SERVER_LIMIT: Final = "max_slot_wal_keep_size"
OWN_LIMIT: Final = "source.slot_budget.max_wal_bytes"
PATIENCE_SECONDS: Final = 60.0
"""A slot that is above its budget for so long, and does not shrink, is given up."""
LEAST_LOOKS: Final = 3
"""A process that slept meanwhile has seen nothing of that time."""
_LEFT: Final = 0.8
"""A slot that keeps less of its budget than this is within it again."""


@dataclass(frozen=True, slots=True)
class SlotRoom:
    """What may still be written until the slot meets the limit of this name; negative above it."""

    left_bytes: int
    limit_bytes: int
    name: str


def find_room(look: SourceLook, budget: SlotBudget) -> SlotRoom | None:
    """The room until the nearest limit, the server's or ours; None without one, or without a slot."""
    if look.slot is None:
        return None
    kept, rooms = look.slot.retained_bytes, list[SlotRoom]()
    if look.limit_bytes is not None:
        left = look.limit_bytes - kept if look.safe_bytes is None else look.safe_bytes
        rooms.append(SlotRoom(left, look.limit_bytes, SERVER_LIMIT))
    if budget.max_wal_bytes is not None:
        rooms.append(SlotRoom(budget.max_wal_bytes - kept, budget.max_wal_bytes, OWN_LIMIT))
    return min(rooms, key=lambda room: room.left_bytes, default=None)


class BudgetWatch:
    """Notes look by look what a slot keeps, and says when that is too much for too long. One that shrinks goes on."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._since: float | None = None
        self._least = 0
        self._looks = 0

    def note(self, at: float, retained: int) -> bool:
        """Note a look, `at` by a clock that nobody sets; returns whether the slot is to be given up."""
        is_above = retained > self._max
        if retained < _LEFT * self._max or (self._since is None and not is_above):
            self._since = None
            return False
        if self._since is None or retained < self._least:
            self._since, self._least, self._looks = at, retained, 0
        self._looks += 1
        return is_above and self._looks >= LEAST_LOOKS and at - self._since >= PATIENCE_SECONDS
