"""Who holds a slot: a transaction that is open for long, or one of unknown age for which the slot keeps much."""

import pytest

from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.run.health.slot_holder import HELD_BYTES, find_slot_holder

NOW = 4000.0
LONG = OldestTransaction(7, "me", NOW - 120, query_since=NOW - 90)
UNSEEN = OldestTransaction(7, None, None)


@pytest.mark.parametrize(
    ("oldest", "retained", "text"),
    [
        (LONG, None, "pid 7 (me), open for 2 min, last query 90 s ago"),
        (UNSEEN, HELD_BYTES, "pid 7 (not shown); since when, only a role with pg_read_all_stats sees"),
        (UNSEEN, HELD_BYTES - 1, None),
        (UNSEEN, None, None),
        (OldestTransaction(7, "me", NOW - 59), HELD_BYTES, None),
        (None, HELD_BYTES, None),
    ],
)
def test_who_holds_a_slot(oldest: OldestTransaction | None, retained: int | None, text: str | None) -> None:
    found = find_slot_holder(oldest, retained, NOW)
    assert (found.text if found else None) == text
    assert found is None or found.release == "SELECT pg_terminate_backend(7)"
