"""A slot that keeps much is given what it moves on by, as often as that helps."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.connect.source.slot import SlotState
from cdc.core.position import Lsn
from cdc.run.guard import slot_beats
from cdc.run.guard.slot_beats import BEAT_SECONDS, LONGEST_PAUSE_SECONDS, MUCH_BYTES, SlotBeats
from cdc.run.pipeline import Pipeline


class Play:
    """A source whose slot is `found`; what was run on it, and the beats that were written."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.found: SlotState | None = self.keeping(2 * MUCH_BYTES)
        self.may_note = True
        self.ran, self.beats = list[str](), 0
        patched.setattr(slot_beats, "read_state", lambda *_: self.found)
        patched.setattr(slot_beats, "read_value", lambda *_: self.may_note)
        patched.setattr(slot_beats, "write_heartbeat", lambda *_: self._beat())
        settings = SimpleNamespace(source=SimpleNamespace(slot="s"))
        self.of = SlotBeats(cast(Pipeline, SimpleNamespace(settings=settings, name="p")))

    @staticmethod
    def keeping(retained: int, restart: int = 1, *, active: bool = True) -> SlotState:
        return SlotState("s", active, "reserved", Lsn(1), Lsn(restart), retained)

    def _beat(self) -> None:
        self.beats += 1

    def look(self) -> None:
        self.of.look(cast(Any, SimpleNamespace(execute=self.ran.append)))


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(monkeypatch)


def test_a_slot_that_keeps_much_gets_a_note_and_a_beat(play: Play) -> None:
    play.look()
    assert (play.ran[0], play.beats) == ("SELECT pg_log_standby_snapshot()", 1)


def test_without_the_right_it_gets_a_beat_alone(play: Play) -> None:
    play.may_note = False
    play.look()
    assert ("SELECT pg_log_standby_snapshot()" in play.ran, play.beats) == (False, 1)


@pytest.mark.parametrize("found", [None, Play.keeping(MUCH_BYTES - 1), Play.keeping(9 * MUCH_BYTES, active=False)])
def test_others_get_none(play: Play, found: SlotState | None) -> None:
    play.found = found
    play.look()
    assert (play.ran, play.beats, play.of.pause) == ([], 0, BEAT_SECONDS)


def test_what_does_not_help_is_done_less_often(play: Play) -> None:
    for _ in range(12):
        play.look()
    assert play.of.pause == LONGEST_PAUSE_SECONDS
    play.found = Play.keeping(2 * MUCH_BYTES, restart=2)
    play.look()
    assert play.of.pause == BEAT_SECONDS
