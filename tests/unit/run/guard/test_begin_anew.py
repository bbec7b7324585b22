"""A plan to begin the capture anew is finished by whoever follows: tried until it is done, by us or by somebody."""

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.core.errors import RECAPTURE, CdcError, ConfigurationError, HistoryLostError, RefusedError, UnreachableError
from cdc.core.position import LogStart, Lsn, Position
from cdc.run.copy.recapture import RecaptureResult
from cdc.run.guard import begin_anew
from cdc.run.guard.begin_anew import finish_plan
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.pipeline import Pipeline
from cdc.run.requests import Requests

GONE = HistoryLostError("slot cdc_p is gone", RECAPTURE)
SILENT = UnreachableError("Kafka Connect does not answer", "is it running?")


class Play:
    """A pipeline with a plan, the answers of its recaptures in order, and what was said."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.answers = list[CdcError | None]()
        self.said = list[str]()
        self.capture = 1
        self.stopping = threading.Event()
        self.found: dict[str, CdcError | None] = {"source": GONE, "log": None, "lake": None}
        self.sends_messages = False
        settings = SimpleNamespace(connect=SimpleNamespace(connector="c"), histories=["public.t"])
        lake = SimpleNamespace(
            position=lambda: Position(1, Lsn(9), 4, log_start=LogStart(number=self.capture)),
            cuts=SimpleNamespace(check_capture=lambda: self._check("lake")),
        )
        made = SimpleNamespace(
            settings=settings,
            lake_name="lake",
            requests=Requests(folder),
            look_again=lambda: None,
            lake_follower=lake,
            open_source=nullcontext,
        )
        patched.setattr(begin_anew, "check_source", lambda *_: self._check("source"))
        patched.setattr(begin_anew, "check_log_end", lambda *_: self._check("log"))
        patched.setattr(begin_anew, "sends_messages", lambda _: self.sends_messages)
        self.pipeline = cast(Pipeline, made)
        patched.setattr(begin_anew, "recapture", lambda *_: self._recapture())
        patched.setattr(begin_anew, "FIRST_PAUSE_SECONDS", 0.0)
        plan = SlotDropPlan(
            at=1.0, slot="cdc_p", why="it keeps much", retained_bytes=9, freed_bytes=9, lsn="0/9", capture=1
        )
        plan.write(self.pipeline)

    def _recapture(self) -> RecaptureResult:
        if (answer := self.answers.pop(0)) is not None:
            raise answer
        return RecaptureResult({}, Lsn(16))

    def _check(self, part: str) -> None:
        if (error := self.found[part]) is not None:
            raise error

    def finish(self) -> None:
        finish_plan(self.pipeline, self.said.append, self.stopping)

    @property
    def is_done(self) -> bool:
        return SlotDropPlan.read(self.pipeline) is None


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(tmp_path, monkeypatch)


def test_a_plan_is_tried_until_all_parts_answer_and_each_reason_told_once(play: Play) -> None:
    play.answers = [SILENT, SILENT, RefusedError("it is followed", "stop it"), None]
    play.finish()
    assert play.is_done
    assert sum("not begun anew yet" in line for line in play.said) == 2
    assert play.said[-1].startswith("histories lack the versions committed between 0/9 and 0/10")


def test_a_recapture_that_somebody_made_meanwhile_is_not_made_again(play: Play) -> None:
    play.capture = 2
    play.finish()
    assert play.is_done


def test_a_slot_that_was_never_dropped_is_kept(play: Play) -> None:
    play.found["source"] = None
    play.finish()
    assert play.is_done
    assert play.said == ["capture: slot cdc_p was not dropped, and nothing is lost: it goes on"]


@pytest.mark.parametrize(
    ("part", "error"),
    [("source", GONE), ("log", HistoryLostError("slot cdc_p was moved", RECAPTURE)), ("log", SILENT), ("lake", GONE)],
)
def test_a_slot_of_which_nobody_knows_that_it_leads_on_is_made_anew(play: Play, part: str, error: CdcError) -> None:
    play.found |= {"source": None, part: error}
    play.answers = [None]
    play.finish()
    assert (play.is_done, play.answers) == (True, [])


def test_a_slot_that_may_have_been_moved_to_a_message_is_made_anew(play: Play) -> None:
    play.found["source"], play.sends_messages, play.answers = None, True, [None]
    play.finish()
    assert (play.is_done, play.answers) == (True, [])


@pytest.mark.parametrize("kind", [HistoryLostError, ConfigurationError])
def test_what_no_try_repairs_ends_it_and_keeps_the_plan(play: Play, kind: type[CdcError]) -> None:
    play.answers = [kind("the lake has no copy yet", "run `cdc bootstrap`")]
    with pytest.raises(kind):
        play.finish()
    assert not play.is_done


def test_who_stops_it_leaves_the_plan_to_the_next_process(play: Play) -> None:
    play.answers = [SILENT]
    play.stopping.set()
    play.finish()
    assert not play.is_done


@pytest.mark.parametrize(("name", "told"), [("capture", "the capture is paused"), ("lake", "follower lake is paused")])
def test_what_is_paused_waits_for_its_owner(play: Play, name: str, told: str) -> None:
    play.pipeline.requests.pause(name, "me")
    play.stopping.set()
    play.finish()
    assert not play.is_done
    assert f"not begun anew yet: {told}" in play.said[-1]


def test_a_plan_that_is_not_whole_is_none(play: Play) -> None:
    play.pipeline.requests.note_recapture('{"at": 1')
    play.finish()
    assert play.said == []
