"""The transaction for which a slot keeps its WAL: one judgment for the status and the doctor."""

from dataclasses import dataclass
from typing import Final

from cdc.connect.source.slots.oldest_transaction import RIGHT, OldestTransaction
from cdc.run.health.result import format_duration

HELD_SECONDS: Final = 60.0
"""A transaction that is open for less holds nothing back yet."""
HELD_BYTES: Final = 64 << 20
"""A slot that moves on keeps less than this."""


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """Whom a slot waits for, in words, for how long, and the statement that ends it.

    `seconds` is None where the role does not see when the transaction began.
    """

    text: str
    seconds: float | None
    release: str


def find_slot_holder(oldest: OldestTransaction | None, retained_bytes: int | None, now: float) -> SlotHolder | None:
    """Who holds a slot that keeps so much; None while nobody does for long. `now` is by the source's clock."""
    if oldest is None:
        return None
    whose = f"{oldest.name} ({oldest.whose})"
    if oldest.since is None:
        # it may have begun a moment ago: only a slot that keeps much says that it did not
        is_held = (retained_bytes or 0) >= HELD_BYTES
        text = f"{whose}; since when, only a role with {RIGHT} sees"
        return SlotHolder(text, None, oldest.remedy) if is_held else None
    if (age := now - oldest.since) < HELD_SECONDS:
        return None
    asked = "" if oldest.query_since is None else f", last query {format_duration(now - oldest.query_since)} ago"
    return SlotHolder(f"{whose}, open for {format_duration(age)}{asked}", age, oldest.remedy)
