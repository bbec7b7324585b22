"""Progress, as lines and on a terminal."""

import io
import sys
import time

import pytest

from cdc.cli import output
from cdc.cli.progress import TerminalProgress, open_progress
from cdc.progress import MEGABYTES, LineProgress
from tests.support.waiting import until

Captured = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_without_a_terminal_is_a_line_per_interval(capsys: Captured) -> None:
    now = iter([0.0, 1.0, 10.0, 11.0, 20.0, 20.0])
    with (
        LineProgress(output.say, clock=lambda: next(now)).bar("public.orders", 4001) as advance,
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
    with LineProgress(output.say, clock=lambda: 0.0, silence=0.01).bar(
        "public.orders", 5, waiting_for="Spark"
    ) as advance:
        until(lambda: capsys.readouterr().err == "public.orders: waiting for Spark\n", "it says so")
        advance(5)
    assert capsys.readouterr().err == "public.orders: 5 rows in 0 s\n"


def test_rate_counts_from_the_first_row(capsys: Captured) -> None:
    now = iter([0.0, 40.0, 50.0, 60.0])
    with LineProgress(output.say, clock=lambda: next(now), silence=0.01).bar("public.orders", 1010) as advance:
        until(lambda: bool(capsys.readouterr().err), "it waits")
        advance(10)
        advance(500)
    assert capsys.readouterr().err.splitlines() == [
        "public.orders: 10 of 1,010 rows",
        "public.orders: 510 of 1,010 rows, 50/s, 10 s left",
        "public.orders: 510 rows in 60 s, 8/s",
    ]


def test_no_event_is_named_once_rows_flow(capsys: Captured) -> None:
    with LineProgress(output.say, clock=lambda: 0.0, silence=0.05).bar("public.orders") as advance:
        advance(1)
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_an_empty_table_has_no_rate(capsys: Captured) -> None:
    now = iter([0.0, 4.0])
    with LineProgress(output.say, clock=lambda: next(now)).bar("search public.orders", 0):
        pass
    assert capsys.readouterr().err == "search public.orders: no rows\n"


def test_empty_work_is_reported_after_a_wait(capsys: Captured) -> None:
    with LineProgress(output.say, clock=lambda: 0.0, silence=0.01).bar("public.orders"):
        until(lambda: bool(capsys.readouterr().err), "it waits")
    assert capsys.readouterr().err == "public.orders: no rows\n"


def test_terminal_bar_starts_with_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with open_progress() as progress, progress.bar("public.orders", 10, waiting_for="Spark") as advance:
        assert isinstance(progress, TerminalProgress)
        progress.bars.refresh()
        assert "waiting for Spark" in terminal.getvalue()
        assert not progress.bars.tasks[0].started
        advance(1)
        assert progress.bars.tasks[0].started
    with open_progress() as progress, progress.bar("public.empty", 0):
        pass
    assert "no rows" in terminal.getvalue()


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with open_progress() as progress, progress.bar("public.orders", 2000) as advance:
        advance(1000)
        advance(1000)
    assert "2,000 rows" in terminal.getvalue()


def test_a_download_is_shown_in_megabytes(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    now = iter([0.0, 10.0, 20.0, 20.0])
    with LineProgress(output.say, clock=lambda: next(now)).bar("kafka", 60_000_000, unit=MEGABYTES) as advance:
        advance(30_000_000)
        advance(30_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "kafka: 30 of 60 MB, 3 MB/s, 10 s left",
        "kafka: 60 of 60 MB, 3 MB/s",
        "kafka: 60 MB in 20 s, 3 MB/s",
    ]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with open_progress() as progress:
        progress.step("kafka", "fetching")
        with progress.bar("kafka", 60_000_000, unit=MEGABYTES, waiting_for="") as advance:
            advance(60_000_000)
    assert "kafka: fetching" in terminal.getvalue()
    assert "60 MB" in terminal.getvalue()
