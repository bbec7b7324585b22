"""How long a part is waited for that runs and does not answer."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.core.errors import UnreachableError
from cdc.local.endpoints import Service
from cdc.local.running import processes, startup
from cdc.local.running.processes import Launch
from cdc.local.state_dir import Home
from cdc.progress import Silent

PART = Service.SEARCH
WRITES = "for n in $(seq {times}); do echo line $n; sleep 0.1; done; touch ready; exec sleep 600"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setattr(startup, "_PATIENCE", 1.5)
    monkeypatch.setattr(startup, "_LONGEST", 30.0)
    made = Home(tmp_path / "state")
    made.make()
    yield made
    processes.stop(made, PART, signal.SIGKILL, patience=10)


def start(home: Home, folder: Path, script: str) -> None:
    launch = Launch(PART, ("/bin/sh", "-c", script), folder=folder)
    startup.start(home, [startup.Candidate(PART, (), lambda: launch, (folder / "ready").exists)], Silent())


def test_who_goes_on_writing_is_waited_for(home: Home, tmp_path: Path) -> None:
    start(home, tmp_path, WRITES.format(times=40))
    assert processes.find(home, PART)


def test_who_is_silent_is_stopped_and_its_last_line_told(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"search did not answer within \d s; last in its log: I wait"):
        start(home, tmp_path, "trap 'echo I end; exit' TERM; echo I wait; while true; do sleep 0.2; done")
    assert processes.find(home, PART) is None


def test_who_writes_for_ever_is_stopped(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_LONGEST", 3.0)
    with pytest.raises(UnreachableError, match="did not answer within"):
        start(home, tmp_path, WRITES.format(times=1000))
    assert processes.find(home, PART) is None
