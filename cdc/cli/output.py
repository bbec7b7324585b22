"""What a person or a script reads: data on stdout, everything else on stderr; colours unless NO_COLOR is set."""

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
"""Columns of a line that nobody looks at through a terminal."""

SECONDS_BETWEEN_LINES = 10.0
"""How often progress is told where there is no terminal."""

SECONDS_OF_SILENCE = 2.0
"""After how long without a row it is told what is waited for, where there is no terminal."""


def data(text: str) -> None:
    """Print a line of what was asked for."""
    sys.stdout.write(f"{text}\n")


def say(text: str) -> None:
    """Print a line about the work."""
    sys.stderr.write(f"{text}\n")


def warn(text: str) -> None:
    say(f"warning: {text}")


def as_json(value: object) -> None:
    """Print the value as one line of JSON whose keys are in a fixed order."""
    data(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain))


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Instead(str):
    """Stands in a column of numbers where there is none, and says why."""

    __slots__ = ()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print rows under their columns; numbers stand right. Without a terminal nothing is cut off or wrapped."""
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    made = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[index], int | float | Instead | None) for line in lines)
        made.add_column(name, justify="right" if numeric else "left", no_wrap=not sys.stdout.isatty())
    for line in lines:
        made.add_row(*(Text("" if cell is None else str(cell)) for cell in line))
    console = _console(sys.stdout.isatty())
    if not sys.stdout.isatty():
        # without a terminal rich has 80 columns, and cuts what it measures to its width: so first the widest
        console.width = WIDEST
        console.width = console.measure(made).maximum
    console.print(made)


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
    """Bars on stderr with rows, rate and time left; without a terminal a plain line every so many seconds."""
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
    """Bars that move, once rows flow."""

    bars: "Progress"

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        task = self.bars.add_task(name, total=total, start=False, rate=f"waiting for {waiting_for}")

        def advance(rows: int) -> None:
            self.bars.start_task(task)
            self.bars.advance(task, rows)
            speed = next((t.speed for t in self.bars.tasks if t.id == task), None)
            self.bars.update(task, rate=f"{speed:,.0f}/s" if speed else "")

        yield advance
        done = next(t.completed for t in self.bars.tasks if t.id == task)
        self.bars.start_task(task)
        self.bars.update(task, total=done)
        if not done:
            self.bars.update(task, rate="no rows")


@dataclass(frozen=True, slots=True)
class PlainBars:
    """A line now and then."""

    every: float
    clock: Callable[[], float]
    silence: float = SECONDS_OF_SILENCE

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        bar = PlainBar(name, total, self.every, self.clock, self.clock())
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
    """One bar as lines: its rate is that of the rows since `started`, `base` of which were there then."""

    name: str
    total: int | None
    every: float
    clock: Callable[[], float]
    began: float
    told: float | None = None
    waited: bool = False
    started: float | None = None
    base: int = 0
    done: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def wait(self, what: str) -> None:
        """Say what the first row waits for, unless it is there; the rate is then that of the rows behind it."""
        with self.lock:
            if not self.done:
                self.waited = True
                say(f"{self.name}: waiting for {what}")

    def advance(self, rows: int) -> None:
        with self.lock:
            self.done += rows
            now = self.clock()
            if self.started is None:
                self.started, self.base = (now, self.done) if self.waited else (self.began, 0)
            if now - (self.told or self.began) >= self.every:
                self.told = now
                say(self.line(now - self.started))

    def end(self) -> None:
        """The last word; nothing of short work whose length nobody knew."""
        if self.told is None and self.total is None and not self.waited:
            return
        seconds = self.clock() - self.began
        done = f"{self.done:,} rows in {seconds:,.0f} s{_rate(self.done, seconds)}" if self.done else "no rows"
        say(f"{self.name}: {done}")

    def line(self, seconds: float) -> str:
        """`public.orders: 120,000 of 1,000,000 rows, 25,000/s, 35 s left`, `seconds` after the rows began to flow."""
        whole = f" of {self.total:,}" if self.total is not None else ""
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
