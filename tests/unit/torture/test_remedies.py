"""Remedies are found in lines as the toolkit writes them; matches are folded, recovery times summed up."""

from typing import Any

import msgspec
import pytest
import typer.main

from cdc.__main__ import VERBS
from cdc.cli.app import build
from cdc.core.errors import RECAPTURE, DivergenceError, HistoryLostError, TableLostError
from cdc.torture.matches import Told, fold
from cdc.torture.outcome import summarize
from cdc.torture.remedies import ASKING, DOING, find_command


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


def test_a_question_is_answered_where_one_is_asked() -> None:
    root: Any = typer.main.get_command(build(VERBS))
    asking = {name for name in DOING if "yes" in {each.name for each in root.commands[name].params}}
    assert asking == ASKING


def told(kind: str, query: int) -> Told:
    line = {"kind": kind, "query": {"id": query}, "table": "public.accounts", "row": {"id": 7}, "lsn": "0/1E"}
    return msgspec.convert(line, Told)


def test_matches_are_those_that_have_begun_and_not_ended() -> None:
    messages = [told("match", 1), told("match", 2), told("end of match", 1), told("match", 3)]
    assert fold(messages) == {(2, "public.accounts", 7), (3, "public.accounts", 7)}


@pytest.mark.parametrize("kinds", [["match", "match"], ["end of match"], ["match", "end of match", "end of match"]])
def test_match_that_is_told_twice_is_found(kinds: list[str]) -> None:
    with pytest.raises(DivergenceError, match="told twice"):
        fold(told(kind, 1) for kind in kinds)


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
