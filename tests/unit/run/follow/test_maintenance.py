"""The upkeep of the lake goes on beside the stream, whatever error a round meets."""

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from cdc.core.errors import PreconditionError
from cdc.core.position import Position
from cdc.run.follow import maintenance
from cdc.run.follow.maintenance import run_maintenance
from cdc.sinks.lake.maintenance import LakeMaintenance

ERRORS = [
    (KeyError("late"), "KeyError: 'late'"),
    (PreconditionError("a table is odd", "mend it"), "a table is odd → mend it"),
    (OSError("no such disk"), "the lake's maintenance stopped: no such disk"),
]


class FailingOnce:
    """Rounds of which the first one meets an error."""

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error
        self.has_gone_on = threading.Event()

    def run(self, needed: Sequence[Position]) -> None:
        error, self._error = self._error, None
        if error:
            raise error
        self.has_gone_on.set()


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda each: type(each).__name__)
def test_upkeep_goes_on_after_any_error(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    monkeypatch.setattr(maintenance, "EVERY_SECONDS", 0.01)
    rounds, said = FailingOnce(error), list[str]()
    with run_maintenance(cast("LakeMaintenance", rounds), lambda: [], said.append):
        assert rounds.has_gone_on.wait(10)
    [line] = said
    assert line.startswith("maintenance: ")
    assert text in line
