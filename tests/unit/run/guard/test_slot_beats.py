"""A slot that keeps much is given what it moves on by, as often as that helps."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.connect.source.slots.slot import SlotState
from cdc.core.position import Lsn
from cdc.run.guard import slot_beats
from cdc.run.guard.slot_beats import BEAT_SECONDS, LONGEST_PAUSE_SECONDS, MUCH_BYTES, PATIENT_BEATS, SlotBeats
from cdc.run.pipeline import Pipeline

STANDBY = object()
"""Where the slot lives: nothing can be written there."""


class Play:
    """A source whose slot is `found`; what was run on it, and the beats that were written."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.found: SlotState | None = self.keeping(2 * MUCH_BYTES)
        self.may_note = True
        self.ran, self.beats = list[str](), 0
        self.looked_at = list[object]()
        patched.setattr(slot_beats, "read_state", lambda where, _: self._find(where))
        patched.setattr("cdc.connect.source.slots.standby.read_value", lambda *_: self.may_note)
        patched.setattr(slot_beats, "write_heartbeat", lambda *_: self._beat())
        settings = SimpleNamespace(source=SimpleNamespace(slot="s"))
        self.primary = cast(Any, SimpleNamespace(execute=self.ran.append))
        self.of = SlotBeats(cast(Pipeline, SimpleNamespace(settings=settings, name="p")))

    @staticmethod
    def keeping(retained: int, restart: int = 1, *, active: bool = True) -> SlotState:
        return SlotState("s", active, "reserved", Lsn(1), Lsn(restart), retained)

    def _find(self, where: object) -> SlotState | None:
        self.looked_at.append(where)
        return self.found

    def _beat(self) -> None:
        self.beats += 1

    def look(self) -> None:
        self.of.look(self.primary, cast(Any, STANDBY))


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


def test_a_slot_is_looked_at_where_it_lives(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a standby; note and beat go to the primary, which has no slot. The thread opens a session on each, once."""
    ended, asked = Event(), list[object]()
    monkeypatch.setattr(slot_beats, "BEAT_SECONDS", 0.0)

    @contextmanager
    def open_decoding(connection: object, source: object) -> Iterator[object]:
        asked.append((connection, source))
        yield STANDBY

    def find(where: object, _: str) -> SlotState:
        play.looked_at.append(where)
        if len(play.looked_at) == 3:
            ended.set()
        return play.keeping(9 * MUCH_BYTES, restart=len(play.looked_at))

    monkeypatch.setattr(slot_beats, "open_decoding", open_decoding)
    monkeypatch.setattr(slot_beats, "read_state", find)
    source = SimpleNamespace(slot="s")
    settings = SimpleNamespace(source=source)
    made = SimpleNamespace(settings=settings, name="p", open_source=lambda: nullcontext(play.primary))
    slot_beats._run(cast(Pipeline, made), ended)
    assert (play.looked_at, asked) == ([STANDBY] * 3, [(play.primary, source)])
    assert (play.ran.count("SELECT pg_log_standby_snapshot()"), play.beats) == (3, 3)


def test_what_does_not_help_is_done_less_often(play: Play) -> None:
    for _ in range(1 + PATIENT_BEATS):
        play.look()
        # the connector confirms a beat a little later
        assert play.of.pause == BEAT_SECONDS
    play.look()
    assert play.of.pause == 2 * BEAT_SECONDS
    for _ in range(12):
        play.look()
    assert play.of.pause == LONGEST_PAUSE_SECONDS
    play.found = Play.keeping(2 * MUCH_BYTES, restart=2)
    play.look()
    assert play.of.pause == BEAT_SECONDS
