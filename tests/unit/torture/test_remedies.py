"""Remedies are found in the lines as the toolkit writes them."""

import pytest

from cdc.core.errors import RECAPTURE, HistoryLostError, TableLostError
from cdc.torture.outcome import summarize
from cdc.torture.remedies import find_command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (str(TableLostError("public.orders", "is damaged")), ["bootstrap", "--again", "public.orders"]),
        (str(HistoryLostError("the slot is gone", RECAPTURE)), ["recapture"]),
        ("the capture is paused → `cdc resume capture`", ["resume", "capture"]),
        ("`cdc bootstrap` has failed → make room, then start it again", None),
        ("it does not answer → see `cdc status`; is `cdc follow` running?", None),
    ],
)
def test_command_is_found(line: str, words: list[str] | None) -> None:
    assert find_command(line) == words


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ([], {"p50": None, "p95": None, "max": None}),
        ([3.0], {"p50": 3.0, "p95": 3.0, "max": 3.0}),
        ([float(n) for n in range(101)], {"p50": 50.0, "p95": 95.0, "max": 100.0}),
    ],
)
def test_recovery_times(seconds: list[float], found: dict[str, float | None]) -> None:
    assert summarize(seconds) == found
