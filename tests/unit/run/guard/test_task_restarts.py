"""A failed task is started again with growing pauses, so often, and never against what source or Kafka say."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.run.guard import task_restarts
from cdc.run.guard.task_restarts import CALM_SECONDS, LONGEST_PAUSE_SECONDS, TaskRestarts, pause_seconds
from cdc.run.pipeline import Pipeline
from cdc.run.requests import Requests
from cdc.run.status.stream_report import RestartReport, open_reports

SILENT = UnreachableError("Kafka k does not answer", "is it running?")
LOST = HistoryLostError("slot cdc_p is lost", RECAPTURE)
REFUSED = PreconditionError("the source refuses user cdc", "check source.password")


class Play:
    """A connector, what its parts say, a clock, and what was done and said."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch, most: int) -> None:
        self.now, self.started, self.said = 0.0, list[float](), list[str]()
        self.kafka: CdcError | None = None
        self.obstacle: CdcError | None = None
        self.refusal: CdcError | None = None
        source, self.asked = SimpleNamespace(decoding="where the slot lives"), set[object]()
        settings = SimpleNamespace(connect=SimpleNamespace(connector="c", restarts=most), source=source, log=None)
        self.pipeline = cast(
            Pipeline,
            SimpleNamespace(
                settings=settings, name="p", state=folder, requests=Requests(folder / "r"), open_connect=nullcontext
            ),
        )
        patched.setattr(task_restarts, "check_reachable", lambda _: self._raise_silent())
        patched.setattr(task_restarts, "find_obstacle", lambda *_: self.obstacle)
        patched.setattr(task_restarts, "try_replication", self._try_replication)
        patched.setattr("cdc.run.guard.task_restarts.connector.restart", lambda *_: self.started.append(self.now))
        self.restarts = TaskRestarts(self.pipeline, self.said.append, lambda: self.now)

    def _raise_silent(self) -> None:
        if self.kafka:
            raise self.kafka

    def _try_replication(self, where: object) -> CdcError | None:
        self.asked.add(where)
        return self.refusal

    def look_for(self, seconds: float, failure: str | None = "it broke") -> None:
        """Look each second for so long."""
        end = self.now + seconds
        while self.now < end:
            self.restarts.look(failure, cast(Any, None))
            self.now += 1

    @property
    def report(self) -> RestartReport | None:
        return open_reports(self.pipeline).read(RestartReport.NAME, RestartReport)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(tmp_path, monkeypatch, 4)


def test_pauses_grow_to_a_bound_and_are_never_alike() -> None:
    pauses = [pause_seconds(starts) for starts in range(12)]
    for starts, pause in enumerate(pauses):
        assert 0.75 <= pause / min(5 * 2**starts, LONGEST_PAUSE_SECONDS) <= 1.25
    assert len(set(pauses)) == len(pauses)


def test_a_task_that_fails_again_and_again_is_left_to_somebody(play: Play) -> None:
    play.look_for(1000)
    assert len(play.started) == 4
    assert play.asked == {"where the slot lives"}, "the connector logs in there"
    assert all(5 <= later - at < 60 for at, later in zip(play.started, play.started[1:], strict=False))
    assert sum("was started again, " in line for line in play.said) == 4
    assert play.said[-1] == (
        "capture: its task is not started again: connector c failed again after each of 4 starts: it broke"
        " → mend the cause; `cdc bootstrap` starts it again"
    )
    report = play.report
    assert report is not None
    assert (report.starts, report.most, report.failure) == (4, 4, "it broke")
    assert report.held_back.startswith("connector c failed again after each of 4 starts")


@pytest.mark.parametrize(
    ("part", "why"), [("kafka", SILENT), ("obstacle", LOST), ("refusal", REFUSED)], ids=["Kafka", "slot", "login"]
)
def test_what_a_part_has_something_against_is_not_started_and_told_once(play: Play, part: str, why: CdcError) -> None:
    setattr(play, part, why)
    play.look_for(300)
    assert not play.started
    assert play.said == [f"capture: its task is not started again: {why}"]
    setattr(play, part, None)
    play.look_for(2)
    assert len(play.started) == 1


def test_a_task_that_ran_for_long_has_all_its_starts_again(play: Play) -> None:
    play.look_for(1000)
    play.look_for(CALM_SECONDS + 1, None)
    assert play.report is None
    play.look_for(1000)
    assert len(play.started) == 8


def test_what_an_earlier_process_told_is_forgotten(play: Play) -> None:
    old = RestartReport(at=0.0, starts=9, most=10, failure="long ago")
    open_reports(play.pipeline).write(RestartReport.NAME, old)
    play.look_for(1, None)
    assert play.report is None


def test_a_paused_capture_is_not_started_which_is_told(play: Play) -> None:
    play.pipeline.requests.pause("capture", "me")
    play.look_for(300)
    assert not play.started
    [line] = play.said
    assert line.startswith("capture: its task is not started again: the capture is paused since ")
    assert line.endswith(", by me → `cdc resume capture` lets it go on")
    assert play.report is not None
    play.look_for(1, None)
    assert play.report is None
    play.pipeline.requests.resume("capture")
    play.look_for(10)
    assert play.started


def test_who_wants_none_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path, monkeypatch, 0)
    play.look_for(300)
    assert (play.started, play.said) == ([], [])
