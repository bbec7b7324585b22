"""The output of verbs: data and messages apart, whole tables, progress, confirmations."""

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.cli import output
from cdc.core import errors
from tests.waiting import until

Captured = pytest.CaptureFixture[str]


def test_json_is_one_line_with_sorted_keys(capsys: Captured) -> None:
    output.as_json({"b": Path("x"), "a": ["é", None]})
    assert capsys.readouterr().out == '{"a":["é",null],"b":"x"}\n'


def test_tables_are_not_cut_without_a_terminal(capsys: Captured) -> None:
    output.table(["table", "rows"], [["public." + "x" * 200, 5], ["[red]a[/red]", None]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "x" * 200 in lines[1]
    assert lines[2].startswith("[red]a[/red]")


def test_progress_without_a_terminal_is_a_line_per_interval(capsys: Captured) -> None:
    now = iter([0.0, 1.0, 10.0, 11.0, 20.0, 20.0])
    with (
        output.progress(every=10.0, clock=lambda: next(now)) as bars,
        bars.bar("public.orders", 4001) as advance,
    ):
        for _ in range(4):
            advance(1000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "public.orders: 2,000 of 4,001 rows, 200/s, 10 s left",
        "public.orders: 4,000 of 4,001 rows, 200/s, 0 s left",
        "public.orders: 4,000 rows in 20 s, 200/s",
    ]


def test_event_before_the_first_row_is_named_once(capsys: Captured) -> None:
    with output.PlainBars(10.0, lambda: 0.0, silence=0.01).bar("public.orders", 5, waiting_for="Spark") as advance:
        until(lambda: capsys.readouterr().err == "public.orders: waiting for Spark\n", "it says so")
        advance(5)
    assert capsys.readouterr().err == "public.orders: 5 rows in 0 s\n"


def test_rate_counts_from_the_first_row(capsys: Captured) -> None:
    now = iter([0.0, 40.0, 50.0, 60.0])
    with output.PlainBars(10.0, lambda: next(now), silence=0.01).bar("public.orders", 1010) as advance:
        until(lambda: bool(capsys.readouterr().err), "it waits")
        advance(10)
        advance(500)
    assert capsys.readouterr().err.splitlines() == [
        "public.orders: 10 of 1,010 rows",
        "public.orders: 510 of 1,010 rows, 50/s, 10 s left",
        "public.orders: 510 rows in 60 s, 8/s",
    ]


def test_no_event_is_named_once_rows_flow(capsys: Captured) -> None:
    with output.PlainBars(10.0, lambda: 0.0, silence=0.05).bar("public.orders") as advance:
        advance(1)
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_an_empty_table_has_no_rate(capsys: Captured) -> None:
    now = iter([0.0, 4.0])
    with output.PlainBars(10.0, lambda: next(now)).bar("search public.orders", 0):
        pass
    assert capsys.readouterr().err == "search public.orders: no rows\n"


def test_empty_work_is_reported_after_a_wait(capsys: Captured) -> None:
    with output.PlainBars(10.0, lambda: 0.0, silence=0.01).bar("public.orders"):
        until(lambda: bool(capsys.readouterr().err), "it waits")
    assert capsys.readouterr().err == "public.orders: no rows\n"


def test_terminal_bar_starts_with_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress() as bars, bars.bar("public.orders", 10, waiting_for="Spark") as advance:
        assert isinstance(bars, output.TerminalBars)
        bars.bars.refresh()
        assert "waiting for Spark" in terminal.getvalue()
        assert not bars.bars.tasks[0].started
        advance(1)
        assert bars.bars.tasks[0].started
    with output.progress() as bars, bars.bar("public.empty", 0):
        pass
    assert "no rows" in terminal.getvalue()


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress() as bars, bars.bar("public.orders", 2000) as advance:
        advance(1000)
        advance(1000)
    assert "2,000 rows" in terminal.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answering(answer: str) -> Callable[[], None]:
    def ask() -> None:
        sys.stdin = Terminal(answer)
        output.confirm("Drop it?", yes=False)

    return ask


def test_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    output.confirm("Drop it?", yes=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(errors.RefusedError, match="--yes"):
        output.confirm("Drop it?", yes=False)
    answering("y\n")()
    with pytest.raises(errors.RefusedError, match="not confirmed"):
        answering("n\n")()
