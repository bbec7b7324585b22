"""What a pause of the capture costs, in bytes and in time."""

import pytest

from cdc.run.control.capture import _describe_room
from cdc.run.health.slot_budget import OWN_LIMIT, SERVER_LIMIT, SlotRoom

GIB, HOUR = 2**30, 3600


@pytest.mark.parametrize(
    ("room", "rate", "told"),
    [
        (
            3 * GIB,
            GIB / HOUR,
            "it is lost after 3.0 GiB more (max_slot_wal_keep_size), in 3 h 0 min at the present rate",
        ),
        (3 * GIB, None, "it is lost after 3.0 GiB more (max_slot_wal_keep_size)"),
        (-5, 100.0, "it is lost after 0 bytes more (max_slot_wal_keep_size), in 0 s at the present rate"),
        (None, GIB / HOUR, "until the source's disk is full, at 1.0 GiB an hour: max_slot_wal_keep_size has no limit"),
        (None, 0.0, "until the source's disk is full: max_slot_wal_keep_size has no limit"),
    ],
)
def test_the_room_of_a_slot_is_told_with_the_time_that_it_lasts(
    room: int | None, rate: float | None, told: str
) -> None:
    assert _describe_room(room if room is None else SlotRoom(room, 9 * GIB, SERVER_LIMIT), rate) == told


@pytest.mark.parametrize(
    ("drops", "told"), [(True, "dropped, and all tables copied again, after"), (False, "too large after")]
)
def test_a_limit_of_ours_is_told_with_what_it_leads_to(*, drops: bool, told: str) -> None:
    room = SlotRoom(3 * GIB, 9 * GIB, OWN_LIMIT)
    assert _describe_room(room, None, drops=drops) == f"it is {told} 3.0 GiB more ({OWN_LIMIT})"
