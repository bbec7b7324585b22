"""Prints for people and scripts: data on stdout, everything else on stderr; colours unless NO_COLOR is set."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cdc.core.errors import RefusedError
from cdc.run.progress import FIRST_ROWS, Advance, Bars

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

WIDEST = 100_000
"""Width of a table that is not printed to a terminal."""

SECONDS_BETWEEN_LINES = 10.0
"""Pause between two lines of progress without a terminal."""

SECONDS_OF_SILENCE = 2.0
"""Seconds without a row after which a bar names the event it waits for, without a terminal."""


def data(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{text}\n")


def say(text: str) -> None:
    """Print a line about the work."""
    sys.stderr.write(f"{text}\n")


def warn(text: str) -> None:
    say(f"warning: {text}")


def as_json(value: object) -> None:
    """Print the value as one line of JSON, with sorted keys."""
    data(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_to_text))


def _to_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Instead(str):
    """A text in a column of numbers that says why there is no number."""

    __slots__ = ()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print rows under their columns, numbers to the right. Without a terminal, nothing is cut off or wrapped."""
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    grid = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[index], int | float | Instead | None) for line in lines)
        grid.add_column(name, justify="right" if numeric else "left", no_wrap=not sys.stdout.isatty())
    for line in lines:
        grid.add_row(*(Text("" if cell is None else str(cell)) for cell in line))
    console = _console(sys.stdout.isatty())
    if not sys.stdout.isatty():
        # without a terminal rich assumes 80 columns, and measures no more than its width: so the widest first
        console.width = WIDEST
        console.width = console.measure(grid).maximum
    console.print(grid)


def _console(terminal: bool, *, stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, force_terminal=terminal, highlight=False)


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes, or `yes` (the option `--yes`) is set.

    Raises RefusedError if the answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"not confirmed: {question}", "--yes answers it where there is no terminal")
    import typer

    if not typer.confirm(question, err=True):
        raise RefusedError("not confirmed", "nothing was done")


@contextmanager
def progress(every: float = SECONDS_BETWEEN_LINES, clock: Callable[[], float] = time.monotonic) -> Iterator[Bars]:
    """Open bars on stderr, with rows, rate and time left; without a terminal, a plain line every so many seconds."""
    if not sys.stderr.isatty():
        yield PlainBars(every, clock)
        return
    with _rich_progress() as bars:
        yield TerminalBars(bars)


def _rich_progress() -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=_console(True, stderr=True),
    )


@dataclass(frozen=True, slots=True)
class TerminalBars:
    """Moving bars; each starts with its first row."""

    bars: "Progress"

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        # not started: rate and time left count from the first row, not from the wait for Spark
        task = self.bars.add_task(name, total=total, start=False, rate=f"waiting for {waiting_for}")

        def advance(rows: int) -> None:
            self.bars.start_task(task)
            self.bars.advance(task, rows)
            speed = next((t.speed for t in self.bars.tasks if t.id == task), None)
            self.bars.update(task, rate=f"{speed:,.0f}/s" if speed else "")

        yield advance
        done = next(t.completed for t in self.bars.tasks if t.id == task)
        self.bars.start_task(task)
        # the total was an estimate: end at 100 % of the real number
        self.bars.update(task, total=done)
        if not done:
            self.bars.update(task, rate="no rows")


@dataclass(frozen=True, slots=True)
class PlainBars:
    """Bars as plain lines, one every so many seconds."""

    every: float
    clock: Callable[[], float]
    silence: float = SECONDS_OF_SILENCE

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        bar = PlainBar(name, total, self.every, self.clock, self.clock())
        # nobody calls the bar before its first row, so a timer says what it waits for
        waiting = threading.Timer(self.silence, bar.wait, (waiting_for,))
        waiting.daemon = True
        waiting.start()
        try:
            yield bar.advance
        finally:
            waiting.cancel()
        bar.end()


@dataclass(slots=True)
class PlainBar:
    """One bar as plain lines. Its rate counts from `started` on, when `base` rows were done."""

    name: str
    total: int | None
    every: float
    clock: Callable[[], float]
    began: float
    said_at: float | None = None
    has_waited: bool = False
    started: float | None = None
    base: int = 0
    done: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def wait(self, event: str) -> None:
        """Name the event that the first row waits for, unless it has come; the rate then counts from the first row."""
        with self.lock:
            if not self.done:
                self.has_waited = True
                say(f"{self.name}: waiting for {event}")

    def advance(self, rows: int) -> None:
        with self.lock:
            self.done += rows
            now = self.clock()
            if self.started is None:
                self.started, self.base = (now, self.done) if self.has_waited else (self.began, 0)
            if now - (self.said_at or self.began) >= self.every:
                self.said_at = now
                say(self.line(now - self.started))

    def end(self) -> None:
        """Print the total; nothing for short work of unknown length."""
        if self.said_at is None and self.total is None and not self.has_waited:
            return
        seconds = self.clock() - self.began
        done = f"{self.done:,} rows in {seconds:,.0f} s{_rate(self.done, seconds)}" if self.done else "no rows"
        say(f"{self.name}: {done}")

    def line(self, seconds: float) -> str:
        """`public.orders: 120,000 of 1,000,000 rows, 25,000/s, 35 s left`; `seconds` have passed since `started`."""
        whole = f" of {self.total:,}" if self.total is not None else ""
        # rows from before the rate began would make the time left too short
        ahead, flowed = max((self.total or 0) - self.done, 0), self.done - self.base
        left = f", {ahead * seconds / flowed:,.0f} s left" if ahead and flowed else ""
        return f"{self.name}: {self.done:,}{whole} rows{_rate(flowed, seconds)}{left}"


def _rate(rows: int, seconds: float) -> str:
    return f", {rows / seconds:,.0f}/s" if rows and seconds > 0 else ""


def fields(values: Mapping[str, object]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        data(f"{name:<{width}}  {value}")
