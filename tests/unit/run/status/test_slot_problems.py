"""What is told of the slot: by which limit it is full, whom it waits for with what helps, and what follows."""

from typing import Any

import pytest
from msgspec.structs import replace

from cdc.core.errors import HistoryLostError
from cdc.run.health.slot_budget import OWN_LIMIT, SERVER_LIMIT
from cdc.run.status.asking.facts import Facts, StreamLook, Trouble
from cdc.run.status.judging.slot_problems import find_restart_problems, find_slot_problems
from cdc.run.status.stream_report import RestartReport
from cdc.run.status.things import Level, Slot, State

GIB = 1 << 30
SLOT = Slot(name="s", state=State.BEHIND, word="", retained_bytes=3 * GIB, limit_bytes=4 * GIB, safe_bytes=GIB)
HELD = {"held_by": "pid 7 (me), open for 2 h", "release": "SELECT pg_terminate_backend(7)"}
END = "end it: SELECT pg_terminate_backend(7)"
GOES_ON = "let the capture go on, see `cdc status`"
DISK = "The source's disk may run full: then nobody can write to it."
DROPS = "Then `cdc follow` drops the slot, begins the capture anew, and copies all tables again."
GONE = "Then Postgres drops the slot's WAL, and only `cdc recapture` helps: a new copy of all tables."


def found(**changes: Any) -> list[Trouble]:
    return [*find_slot_problems(replace(SLOT, **changes), None)]


@pytest.mark.parametrize(
    ("changes", "key", "level", "remedy", "hurts"),
    [
        (
            {"safe_bytes": -5, "limited_by": OWN_LIMIT, "policy": "warn"},
            "slot.full",
            Level.NOW,
            f"{GOES_ON}, or raise {OWN_LIMIT}",
            DISK,
        ),
        (
            {"safe_bytes": 0, "limited_by": OWN_LIMIT, "policy": "drop", **HELD},
            "slot.full",
            Level.NOW,
            f"{END}, or raise {OWN_LIMIT}",
            DROPS,
        ),
        (
            {"wal_status": "unreserved", "limited_by": SERVER_LIMIT},
            "slot.full",
            Level.NOW,
            f"{GOES_ON}, or raise {SERVER_LIMIT}",
            GONE,
        ),
        (
            {"full_in_seconds": 900.0, "limited_by": OWN_LIMIT, "policy": "warn"},
            "slot.exhaustion",
            Level.NOW,
            f"{GOES_ON}, or raise {OWN_LIMIT}",
            DISK,
        ),
        ({"limit_bytes": None, "safe_bytes": None, **HELD}, "slot.held", Level.TODAY, END, ""),
    ],
)
def test_a_slot_is_told_by_its_limit_and_its_holder(
    changes: dict[str, Any], key: str, level: Level, remedy: str, hurts: str
) -> None:
    [trouble] = found(**changes)
    assert (trouble.key, trouble.level, trouble.error.remedy, trouble.hurts) == (key, level, remedy, hurts)
    assert "keeps 3.0 GiB of WAL" in trouble.error.what


@pytest.mark.parametrize("changes", [{}, {"full_in_seconds": 90_000.0}, {"retained_bytes": 9 << 20, **HELD}])
def test_a_slot_with_room_is_no_problem(changes: dict[str, Any]) -> None:
    assert found(**changes) == []


def test_a_slot_that_was_dropped_is_told_in_place_of_all_else() -> None:
    dropped = HistoryLostError("slot s was dropped", "`cdc follow` begins the capture anew")
    lost = HistoryLostError("slot s is lost", "`cdc recapture`")
    assert [trouble.error for trouble in find_slot_problems(SLOT, lost, dropped)] == [dropped]
    assert [trouble.error for trouble in find_slot_problems(None, lost)] == [lost]


def test_starts_of_a_task_are_told_while_somebody_follows() -> None:
    report = RestartReport(at=1.0, starts=3, most=10, failure="it broke")
    facts = Facts(2.0, restarts=report, streams={"lake": StreamLook(is_followed=True)})
    [trouble] = find_restart_problems(facts)
    assert trouble.headline == "the task of the connector was started again 3 times of 10"
    assert (trouble.level, trouble.is_failure) == (Level.KNOW, False)
    assert not [*find_restart_problems(Facts(2.0, restarts=report, streams={"lake": StreamLook()}))]
