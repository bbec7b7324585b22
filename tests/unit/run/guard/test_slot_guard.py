"""Which slot is dropped, and which never: not by another policy, not somebody else's, not where it frees nothing."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.connect.slot_budget import BudgetPolicy, SlotBudget
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots.slot import SlotState
from cdc.connect.source.slots.slot_health import SourceLook
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position
from cdc.run.guard import slot_guard
from cdc.run.guard.slot_guard import SlotGuard
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.pipeline import Pipeline
from cdc.run.requests import Requests

MOST = 64 << 20
OURS = Registration("p", "cdc_p", "cdc_p", "p")
SILENT = UnreachableError("Kafka Connect does not answer", "is it running?")


class Play:
    """A guard whose looks come each 30 s, and what the source and Kafka Connect say."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch, budget: SlotBudget) -> None:
        self.now, self.said, self.done = 0.0, list[str](), list[str]()
        self.found: SlotState | None = SlotState("cdc_p", False, "reserved", Lsn(1), Lsn(1), 2 * MOST)
        self.other_ahead: int | None = None
        self.registered: Registration | None = OURS
        self.is_own = True
        self.errors = dict[str, CdcError]()
        self.is_told = False
        intent = SimpleNamespace(tell=lambda: self._tell(told=True), close=lambda: self._tell(told=False))
        patched.setattr(slot_guard, "DropIntent", lambda _: intent)
        source = SimpleNamespace(slot="cdc_p", slot_budget=budget)
        settings = SimpleNamespace(source=source, connect=SimpleNamespace(connector="c"), histories=[])
        lake = SimpleNamespace(position=lambda: Position(1, Lsn(9), 4))
        made = SimpleNamespace(
            settings=settings,
            name="p",
            requests=Requests(folder),
            lake_follower=lake,
            open_source=self._open_source,
            open_connect=nullcontext,
        )
        self.pipeline = cast(Pipeline, made)
        patched.setattr(slot_guard, "look_at_source", lambda *_: self._look())
        patched.setattr(slot_guard, "CaptureObserver", lambda _: SimpleNamespace(newest=lambda: (Lsn(9), 0.0)))
        patched.setattr("cdc.run.guard.slot_guard.registration.read_registration", lambda *_: self.registered)
        patched.setattr("cdc.run.guard.slot_guard.slot.is_own_kind", lambda *_: self.is_own)
        for step, place in (("halt", "connector.halt"), ("end", "slot.end_reader"), ("drop", "slot.drop_own")):
            patched.setattr(f"cdc.run.guard.slot_guard.{place}", self._doing(step))
        self.guard = SlotGuard(self.pipeline, self.said.append, lambda: self.now)

    def _tell(self, *, told: bool) -> None:
        self.is_told = told

    def _open_source(self) -> nullcontext[None]:
        if "source" in self.errors:
            raise self.errors["source"]
        return nullcontext()

    def _doing(self, step: str) -> object:
        def do(*_: object) -> None:
            self.done.append(step)
            if step in self.errors:
                raise self.errors[step]

        return do

    def _look(self) -> SourceLook:
        return SourceLook(0.0, Lsn(9), "18.1", self.found, other_ahead=self.other_ahead, other="elsewhere")

    def look(self, times: int = 4) -> list[CdcError | None]:
        ends = list[CdcError | None]()
        for _ in range(times):
            ends.append(self.guard.look())
            self.now += 30
        return ends

    @property
    def plan(self) -> SlotDropPlan | None:
        return SlotDropPlan.read(self.pipeline)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(tmp_path, monkeypatch, SlotBudget(max_wal_bytes=MOST, on_exceeded=BudgetPolicy.DROP))


def test_it_is_dropped_by_plan_behind_the_connector_and_ends_the_streams(play: Play) -> None:
    ends = play.look()
    assert ends[:3] == [None, None, None]
    assert "slot cdc_p was dropped" in str(ends[3])
    assert play.done == ["halt", "drop"]
    assert play.plan is not None
    assert (play.plan.slot, play.plan.freed_bytes, play.plan.capture) == ("cdc_p", 2 * MOST, 1)


def test_a_slot_that_postgres_gave_up_is_dropped_at_once(play: Play) -> None:
    play.found = SlotState("cdc_p", False, "lost", None, None, 0, invalidated="wal_removed")
    play.look(1)
    assert play.done == ["halt", "drop"]


def test_a_silent_kafka_connect_keeps_no_slot(play: Play) -> None:
    play.errors["halt"] = SILENT
    play.look()
    assert play.done == ["halt", "end", "drop"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"registered": None}, "it is not the slot of pipeline p"),
        ({"registered": Registration("p", "other", "cdc_p", "p")}, "it is not the slot of pipeline p"),
        ({"is_own": False}, "it is not the slot of pipeline p"),
        ({"other_ahead": MOST // 2}, "slot elsewhere keeps all but 32.0 MiB of the same WAL"),
    ],
)
def test_a_slot_of_others_or_for_others_is_not_dropped_and_told_once(
    play: Play, changes: dict[str, object], told: str
) -> None:
    for name, value in changes.items():
        setattr(play, name, value)
    assert not [end for end in play.look(8) if end]
    assert (play.done, play.plan) == ([], None)
    [line] = play.said
    assert line.startswith(f"capture: slot cdc_p is not dropped: {told}")


def test_who_waits_for_another_slot_lets_its_guard_know_as_long_as_he_waits(play: Play) -> None:
    play.other_ahead = 0
    play.look(2)
    assert not play.is_told
    play.look()
    assert (play.is_told, play.done) == (True, [])
    # the other one tells the same
    play.other_ahead = None
    play.look(1)
    assert (play.is_told, play.done) == (False, ["halt", "drop"])


def test_who_need_not_drop_any_more_lets_the_others_know(play: Play) -> None:
    assert play.found is not None
    play.other_ahead = 0
    play.look()
    play.found = replace(play.found, retained_bytes=MOST // 2)
    play.look(1)
    assert (play.is_told, play.done) == (False, [])


def test_a_drop_that_fails_leaves_no_plan(play: Play) -> None:
    play.errors["drop"] = PreconditionError("slot cdc_p cannot be dropped", "stop whatever reads from it")
    assert not [end for end in play.look() if end]
    assert play.plan is None
    assert "slot cdc_p is not dropped: slot cdc_p cannot be dropped" in play.said[-1]


@pytest.mark.parametrize("error", [None, UnreachableError("the source does not answer", "")])
def test_no_slot_and_no_source_are_told_by_others(play: Play, error: CdcError | None) -> None:
    play.found = None
    play.errors |= {"source": error} if error else {}
    assert not [end for end in play.look() if end]
    assert (play.done, play.said) == ([], [])


def test_whoever_wants_to_be_warned_keeps_the_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path, monkeypatch, SlotBudget(max_wal_bytes=MOST))
    assert not [end for end in play.look(8) if end]
    assert (play.done, play.said) == ([], [])
