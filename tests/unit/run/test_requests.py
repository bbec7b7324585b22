"""Requests to pause a follower or to start it anew, as files."""

from pathlib import Path

import pytest

from cdc.core.errors import PreconditionError
from cdc.run.requests import Requests


def test_the_first_pause_stands(tmp_path: Path) -> None:
    requests = Requests(tmp_path / "new")
    requests.pause("search", "ann")
    requests.pause("search", "bob")
    pause = requests.read_pause("search")
    assert pause
    assert pause.what.startswith("follower search is paused since ")
    assert pause.what.endswith(" UTC, by ann")
    assert requests.read_pause("latest") is None
    assert requests.resume("search")
    assert not requests.resume("search")
    assert not requests.ends_stream("search")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"since": "yesterday", "by": 1}'])
def test_a_damaged_note_is_a_pause_all_the_same(tmp_path: Path, text: str) -> None:
    (tmp_path / "capture.pause").write_text(text)
    pause = Requests(tmp_path).read_pause("capture")
    assert str(pause) == "the capture is paused → `cdc resume capture` lets it go on"


def test_a_request_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PreconditionError, match=r"the request cannot be written to .*: File exists → "):
        Requests(tmp_path / "file").pause("search", "ann")
