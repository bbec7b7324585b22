"""Shows progress on stderr: moving bars on a terminal, lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.cli import output
from cdc.progress import FIRST_ROWS, ROWS, Advance, LineProgress, Progress, Unit

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task


@contextmanager
def open_progress() -> Iterator[Progress]:
    """Open the progress of one command."""
    # moving bars would fill a log file with control characters
    if not sys.stderr.isatty():
        yield LineProgress(output.say)
        return
    with _open_bars() as bars:
        yield TerminalProgress(bars)


def _open_bars() -> "Bars":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=output.open_console(is_terminal=True, stderr=True),
    )


@dataclass(frozen=True, slots=True)
class TerminalProgress:
    """Moving bars, and the steps above them; a bar starts with its first row."""

    bars: "Bars"

    @contextmanager
    def bar(
        self, name: str, total: int | None = None, *, unit: Unit = ROWS, waiting_for: str = FIRST_ROWS
    ) -> Iterator[Advance]:
        # not started: rate and time left count from the first row, not from the wait for Spark
        event = f"waiting for {waiting_for}" if waiting_for else ""
        number = self.bars.add_task(name, total=total, start=False, done="", rate=event)
        # `add_task` answers a number; only the task has count and speed
        task = next(task for task in self.bars.tasks if task.id == number)

        def advance(count: int) -> None:
            # called for every piece: a task that has started keeps its first start
            self.bars.start_task(task.id)
            self.bars.advance(task.id, count)
            self._show(task, unit)

        yield advance
        self.bars.start_task(task.id)
        # the total was an estimate: end at 100 % of the real number
        self.bars.update(task.id, total=task.completed)
        # otherwise the bar would still name the event that it waited for
        if not task.completed:
            self.bars.update(task.id, rate=f"no {unit.name}")

    def _show(self, task: "Task", unit: Unit) -> None:
        rate = unit.rate(task.speed or 0, 1)
        self.bars.update(task.id, done=f"{unit.show(task.completed)} {unit.name}", rate=rate)

    def step(self, name: str, text: str) -> None:
        self.bars.console.print(f"{name}: {text}", highlight=False, markup=False)
