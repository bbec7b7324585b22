"""When a slot is given up: above its budget, look after look, for a while, and not while it shrinks."""

import pytest
from pydantic import ValidationError

from cdc.connect.slot_budget import BudgetPolicy, SlotBudget
from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.connect.source.slots.slot import SlotState
from cdc.connect.source.slots.slot_health import SourceLook
from cdc.core.position import Lsn
from cdc.run.health.slot_budget import OWN_LIMIT, SERVER_LIMIT, BudgetWatch, SlotRoom, find_room

MOST = 1000


def given_up(*looks: tuple[float, int]) -> list[float]:
    """The times at which a slot of a budget of MOST was to be given up."""
    watch = BudgetWatch(MOST)
    return [at for at, retained in looks if watch.note(at, retained)]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([(0, 999), (60, 1000), (120, 1000), (180, 1000)], [], id="within"),
        pytest.param([(0, 1001), (30, 1002), (60, 1002), (90, 1003)], [60, 90], id="above for a while"),
        pytest.param([(0, 1001), (30, 1500), (59, 1500)], [], id="not for long enough"),
        pytest.param([(0, 3000), (30, 2500), (60, 2000), (90, 1500), (120, 1001)], [], id="it shrinks"),
        pytest.param([(0, 3000), (30, 2500), (60, 2500), (95, 2600)], [95], id="it shrinks no more"),
        pytest.param([(0, 1001), (600, 1001)], [], id="a process that slept"),
        pytest.param([(0, 1001), (30, 900), (60, 1001), (90, 1001)], [90], id="a look below is no return"),
        pytest.param([(0, 1001), (30, 1001), (60, 700), (90, 1001), (120, 1001)], [], id="well below is one"),
    ],
)
def test_a_slot_is_given_up_that_stays_above_its_budget(looks: list[tuple[float, int]], expected: list[float]) -> None:
    assert given_up(*looks) == expected


def look(kept: int, **known: int | None) -> SourceLook:
    state = SlotState("s", True, "reserved", Lsn(1), Lsn(1), kept)
    return SourceLook(0.0, Lsn(9), "18.1", state, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "safe", "own", "expected"),
    [
        (None, None, None, None),
        (900, 500, None, SlotRoom(500, 900, SERVER_LIMIT)),
        (900, None, None, SlotRoom(800, 900, SERVER_LIMIT)),
        (None, None, 1 << 30, SlotRoom((1 << 30) - 100, 1 << 30, OWN_LIMIT)),
        (1 << 40, 1 << 39, 1 << 30, SlotRoom((1 << 30) - 100, 1 << 30, OWN_LIMIT)),
        (900, -5, 1 << 30, SlotRoom(-5, 900, SERVER_LIMIT)),
    ],
)
def test_the_nearer_limit_counts(
    limit: int | None, safe: int | None, own: int | None, expected: SlotRoom | None
) -> None:
    assert find_room(look(100, limit_bytes=limit, safe_bytes=safe), SlotBudget(max_wal_bytes=own)) == expected


@pytest.mark.parametrize(("ahead", "freed"), [(None, 100), (30, 30), (-30, 0), (500, 100), (0, 0)])
def test_a_drop_frees_what_no_other_slot_keeps(ahead: int | None, freed: int) -> None:
    assert look(100, other_ahead=ahead).freed_bytes == freed


def test_a_pause_is_no_policy_since_it_frees_nothing() -> None:
    assert SlotBudget().on_exceeded is BudgetPolicy.WARN
    with pytest.raises(ValidationError, match="cannot be `pause`: the slot waits for the capture alone"):
        SlotBudget(on_exceeded="pause")


def test_a_prepared_transaction_is_ended_by_its_gid_in_its_database() -> None:
    found = OldestTransaction(None, "me", 1.0, gid="it's", database="shop")
    assert (found.name, found.whose) == ("prepared transaction 'it''s'", "me, database shop")
    assert found.remedy == "ROLLBACK PREPARED 'it''s' in database shop, or COMMIT PREPARED"
