"""The verdict: one sentence, by the most urgent; and the order of what needs somebody."""

import pytest
from msgspec.structs import replace

from cdc.connect.capture.connector_state import ConnectorState
from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError
from cdc.run.health.result import Failing
from cdc.run.status.asking.facts import LOST, CaptureLook, Facts, SourceChecks, Trouble
from cdc.run.status.asking.questions import LastAnswer
from cdc.run.status.document import StatusProblem
from cdc.run.status.judging.problem_list import (
    find_part_problems,
    list_problems,
)
from cdc.run.status.judging.slot_problems import find_slot_problems
from cdc.run.status.judging.states import Judged
from cdc.run.status.judging.verdict import reach_verdict
from cdc.run.status.judging.verifications import find_verification_problems, judge_comparison
from cdc.run.status.things import (
    CopyStatus,
    FollowerStatus,
    Level,
    Part,
    Slot,
    State,
    TableStatus,
    TableVerdict,
    Verification,
    to_time,
)

LAKE = FollowerStatus(order=1, kind="delta", what="", state=State.OK, word="current", p50_seconds=1.44)
FOLLOWED = {f"public.t{n}": TableStatus() for n in range(3)}


def parts(**states: State) -> dict[str, Part]:
    names = ("source", "capture", "log", "lake")
    made = {name: states.get(name, State.OK) for name in names}
    return {name: Part(order=1, kind="", name=name, state=state, word=state) for name, state in made.items()}


def stopped(name: str, level: Level = Level.NOW) -> Trouble:
    return Trouble(f"table.stopped:{name}", level, PreconditionError(f"{name}: why", "copy it"), f"{name} is stopped")


def title(
    *found: Trouble,
    slot: Slot | None = None,
    tables: dict[str, TableStatus] = FOLLOWED,
    followers: dict[str, FollowerStatus] | None = None,
    **states: State,
) -> tuple[Level, str]:
    verdict = reach_verdict(list_problems(found, slot), parts(**states), followers or {"lake": LAKE}, tables)
    return verdict.level, verdict.title


KNOW = Trouble("letters.held:public.t1", Level.KNOW, PreconditionError("2 keys of public.t1 are held"))
STILL = Trouble(
    "part.still:capture", Level.NOW, PreconditionError("why", "`cdc bootstrap`"), "The capture stands still"
)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((), (Level.OK, "Everything is current")),
        ((KNOW,), (Level.KNOW, "Everything is current; to know: 2 keys of public.t1 are held")),
        ((KNOW, stopped("public.t1")), (Level.NOW, "public.t1 is stopped")),
        ((stopped("public.t1", Level.TODAY), STILL), (Level.NOW, "The capture stands still, and public.t1 is stopped")),
        ((stopped("a.b"), STILL), (Level.NOW, "a.b is stopped, and the capture stands still")),
        (tuple(map(stopped, FOLLOWED)), (Level.NOW, "3 of 3 tables are stopped")),
    ],
)
def test_the_most_urgent_is_said(found: tuple[Trouble, ...], told: tuple[Level, str]) -> None:
    assert title(*found) == told


def test_nothing_is_called_well_that_nobody_knows() -> None:
    assert title(log=State.UNKNOWN) == (Level.UNKNOWN, "Not known: log")
    assert title(capture=State.NEW, lake=State.NEW)[0] is Level.NEW


def test_a_copy_is_told_with_its_time() -> None:
    copy = CopyStatus(phase="rows", done_rows=430, all_rows=1000, seconds_left=4800.0)
    copying = TableStatus(state=State.COPYING, copy=copy)
    assert title(tables={**FOLLOWED, "public.new": copying}) == (
        Level.BUSY,
        "Everything is current; copying 1 table",
    )
    assert title(tables={"a": copying, "b": copying}) == (Level.BUSY, "Copying 2 tables: about 43 %, 80 min left")


@pytest.mark.parametrize(("seconds", "level"), [(1700, Level.NOW), (10_944, Level.TODAY), (90_000, None), (None, None)])
def test_time_until_the_slot_is_full_decides_how_urgent_it_is(seconds: int | None, level: Level | None) -> None:
    full_at = to_time(1_700_000_000) if seconds else None
    slot = Slot(name="s", state=State.BEHIND, word="filling", full_in_seconds=seconds, full_at=full_at, held_by="pid 7")
    slot = replace(slot, retained_bytes=1, limit_bytes=9, safe_bytes=8, limited_by="max_slot_wal_keep_size")
    found = list_problems(find_slot_problems(slot, None), slot)
    assert [problem.level for problem in found.values()] == ([level] if level else [])
    for problem in found.values():
        assert (problem.deadline, problem.exit_code) == (full_at, 0)
        assert problem.what == "The slot is full in {left}"
    lost = list_problems(find_slot_problems(slot, HistoryLostError("slot s is lost", "`cdc recapture` does it")), slot)
    assert [(p.level, p.exit_code, p.command) for p in lost.values()] == [(Level.NOW, 7, "cdc recapture")]


def test_a_follower_that_differed_is_told_until_it_was_equal() -> None:
    at = to_time(1_700_000_000)
    kept = {
        "lake": Verification(at=at, verdict="equal"),
        "search": Verification(at=at, verdict="different", differences=2, lsn="0/7"),
    }
    [problem] = list_problems(find_verification_problems(kept, at.timestamp()), None).values()
    assert (problem.level, problem.since, problem.command, problem.exit_code) == (Level.NOW, at, "cdc repair", 0)
    assert problem.why == "search differed from the source in 2 tables, at 0/7"


def test_a_rolling_verification_that_does_not_keep_its_period_is_told() -> None:
    at = to_time(1_700_000_000)
    by_table = {
        "a.b": TableVerdict(tried=at, at=at, verdict="equal"),
        "a.c": TableVerdict(tried=at, why="it is locked"),
    }
    found = Verification(at=at, verdict="equal", every_seconds=3600.0, by_table=by_table)
    kept = {"lake": found, "search": Verification(at=at, verdict="equal")}
    assert not find_verification_problems(kept, at.timestamp() + 7200)
    [problem] = list_problems(find_verification_problems(kept, at.timestamp() + 7201), None).values()
    assert (problem.level, problem.since, problem.exit_code) == (Level.KNOW, at, 0)
    assert problem.why == "a.b of lake was compared with the source last 2 h 0 min ago, and is to be each 60 min"


def test_a_table_that_never_could_be_compared_grows_old() -> None:
    """It is tried again and again, which is no comparison."""
    begun, now = to_time(1_700_000_000), to_time(1_700_007_201)
    by_table = {
        "a.b": TableVerdict(tried=now, at=now, verdict="equal"),
        "a.c": TableVerdict(tried=now, since=begun, why="it is locked"),
    }
    kept = {"lake": Verification(at=now, verdict="equal", every_seconds=3600.0, by_table=by_table)}
    [problem] = list_problems(find_verification_problems(kept, now.timestamp()), None).values()
    assert (problem.level, problem.since) == (Level.KNOW, begun)
    assert problem.why == "a.c of lake could not be compared for 2 h 0 min, and is to be each 60 min, it is locked"


def test_of_a_tables_verdicts_the_worst_is_shown() -> None:
    old, new = to_time(1_700_000_000), to_time(1_700_000_009)
    verdicts = {
        "lake": TableVerdict(tried=new, at=new, verdict="equal"),
        "search": TableVerdict(tried=old, at=old, verdict="equal"),
        "latest": TableVerdict(tried=old, at=old, verdict="different"),
    }
    kept = {name: Verification(at=new, verdict="", by_table={"a.b": verdict}) for name, verdict in verdicts.items()}
    assert judge_comparison(kept, "a.b") == (old, "different")
    assert judge_comparison({name: kept[name] for name in ("lake", "search")}, "a.b") == (old, "equal")
    assert judge_comparison(kept, "a.c") == (None, None)


def test_one_error_of_several_questions_is_one_problem() -> None:
    down = PreconditionError("Postgres refuses", "ALTER ROLE me LOGIN")
    found = list_problems([Trouble("part.failed:source", Level.NOW, down), Trouble("x", Level.NOW, down), KNOW], None)
    assert list(found) == ["part.failed:source", "letters.held:public.t1"]
    first: StatusProblem = found["part.failed:source"]
    assert (first.order, first.command, first.language) == (1, "ALTER ROLE me LOGIN", "sql")
    assert (first.subject.kind, first.subject.name) == ("part", "source")
    assert str(first) == "Postgres refuses → ALTER ROLE me LOGIN"


def test_a_failed_capture_beside_a_moved_slot_has_the_remedy_that_helps() -> None:
    """The slot is asked once, by who asks whether source and log lead on."""
    failed = PreconditionError("connector c failed: no", "`cdc bootstrap` starts it again")
    look = CaptureLook(ConnectorState("c", "RUNNING", ("FAILED",), "no"), failing=Failing(failed, None, True, "no"))
    lost = Trouble(LOST, Level.NOW, HistoryLostError("somebody moved the slot", RECAPTURE))
    states = {"capture": Judged(State.FAILED, "failed"), "log": Judged(State.OK, "current")}
    for found, remedy in (((), failed.remedy), ((lost,), RECAPTURE)):
        facts = Facts(0.0, capture=LastAnswer(look), continuity=LastAnswer(SourceChecks(findings=found)))
        [problem] = find_part_problems(facts, states, {"capture": "The capture"})
        assert problem.error.remedy == remedy
    assert problem.error.what == "connector c failed: no; somebody moved the slot"
    assert isinstance(problem.error, HistoryLostError)
