"""A failed capture stops the tables at which it failed: each once, while the failure stands."""

from types import SimpleNamespace
from typing import cast

import pytest

from cdc.core.errors import CdcError
from cdc.core.table import TableName
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow import capture_monitor
from cdc.run.follow.capture_monitor import CaptureMonitor
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.pipeline import Pipeline

RATES, KEYED = TableName("public", "rates"), TableName("public", "keyed")


class Play:
    """A monitor, what the source and the lake have, and the stops that were requested."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.changed: set[TableName] = set()
        self.stopped: list[set[TableName]] = []
        settings = SimpleNamespace(connect=SimpleNamespace(connector="c"))
        for part in ("CaptureHealth", "TaskRestarts", "SlotGuard"):
            patched.setattr(capture_monitor, part, lambda *_: None)
        patched.setattr(
            capture_monitor, "find_changed_tables", lambda *_, **__: dict.fromkeys(self.changed, CdcError("it differs"))
        )
        followed = [SimpleNamespace(name=name) for name in (RATES, KEYED)]
        patched.setattr(capture_monitor, "read_followed_tables", lambda _: followed)
        stops = StopRequests()
        stops.connect(lambda reasons, _: self.stopped.append(set(reasons)) if reasons else None)
        pipeline = cast(Pipeline, SimpleNamespace(settings=settings))
        self.monitor = CaptureMonitor(pipeline, None, lambda _: None, stops, cast(ResyncQueue, None))

    def look(self, failure: str | None) -> None:
        self.monitor._stop_failed(failure)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(monkeypatch)


FAILURE = "cannot read a row of 'public.rates'"


def test_a_table_that_is_copied_is_not_stopped_by_the_failure_that_still_stands(play: Play) -> None:
    play.changed = {RATES, KEYED}
    play.look(FAILURE)
    # both are copied by now, and the connector has not started yet
    play.changed = set()
    play.look(FAILURE)
    assert play.stopped == [{RATES, KEYED}]


def test_a_table_that_a_failure_names_is_stopped_once(play: Play) -> None:
    play.look(FAILURE)
    play.look(FAILURE)
    assert play.stopped == [{RATES}]


def test_a_table_that_a_failure_names_beside_changed_ones_is_stopped_next(play: Play) -> None:
    play.changed = {KEYED}
    play.look(FAILURE)
    play.changed = set()
    play.look(FAILURE)
    assert play.stopped == [{KEYED}, {RATES}]


@pytest.mark.parametrize("between", [None, "cannot read a row of 'public.keyed'"])
def test_another_failure_stops_the_table_again(play: Play, between: str | None) -> None:
    for failure in (FAILURE, between, FAILURE):
        play.look(failure)
    assert [stopped for stopped in play.stopped if RATES in stopped] == [{RATES}, {RATES}]
