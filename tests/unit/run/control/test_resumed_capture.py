"""A pause that was noted is taken back, whatever has become of the connector since."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.config.settings import CAPTURE
from cdc.connect.capture.connector_state import ConnectorState
from cdc.core.errors import CdcError, PreconditionError
from cdc.run.control import capture
from cdc.run.control.question import ControlVerb
from cdc.run.pipeline import Pipeline
from cdc.run.requests import Requests

RUNNING = ConnectorState("c", "RUNNING", ("RUNNING",))
PAUSED = ConnectorState("c", "PAUSED", ("PAUSED",))
FAILED = ConnectorState("c", "RUNNING", ("FAILED",), "it broke")
DELETED = ConnectorState("c", None)


class Play:
    """A pipeline whose capture rests by our own note, and its connector."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.connector, self.resumed = PAUSED, 0
        settings = SimpleNamespace(connect=SimpleNamespace(connector="c"))
        made = SimpleNamespace(settings=settings, requests=Requests(folder), open_connect=nullcontext)
        self.pipeline = cast(Pipeline, made)
        self.pipeline.requests.pause(CAPTURE, "me")
        patched.setattr(capture, "look_up", lambda *_: self.connector)
        patched.setattr("cdc.run.control.capture.connector.resume", lambda *_: self._resume())
        patched.setattr(capture, "_find_loss", lambda _: None)
        patched.setattr(capture, "_describe_costs", lambda *_: "")

    def _resume(self) -> None:
        self.connector, self.resumed = RUNNING, self.resumed + 1

    @property
    def refusal(self) -> CdcError | None:
        return capture.ask(self.pipeline, ControlVerb.RESUME).refused

    def resume(self) -> str:
        return capture.act(self.pipeline, ControlVerb.RESUME, "me")


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(tmp_path, monkeypatch)


@pytest.mark.parametrize(("found", "resumed"), [(PAUSED, 1), (RUNNING, 0), (DELETED, 0)])
def test_it_goes_on_and_no_note_is_left(play: Play, found: ConnectorState, resumed: int) -> None:
    play.connector = found
    assert play.refusal is None
    play.resume()
    assert (play.resumed, play.pipeline.requests.is_paused(CAPTURE)) == (resumed, False)


def test_one_that_has_failed_is_told_and_no_note_is_left(play: Play) -> None:
    play.connector = FAILED
    assert play.refusal is None
    with pytest.raises(PreconditionError, match="it broke"):
        play.resume()
    assert not play.pipeline.requests.is_paused(CAPTURE)


def test_what_nobody_has_paused_is_not_resumed(play: Play) -> None:
    play.pipeline.requests.resume(CAPTURE)
    play.connector = RUNNING
    assert "connector c is not paused" in str(play.refusal)
