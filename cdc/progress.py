"""Progress of downloads, services and jobs, for a caller to show; as lines, where there is no terminal."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

Advance = Callable[[int], None]
"""Advances a bar by so many rows or bytes, from any thread; a download that starts anew goes back."""

FIRST_ROWS: Final = "the first rows"
SPARKS_ROWS: Final = "Spark's first rows"
"""The events a bar waits for. The first job of a session starts Spark's Python workers, which takes seconds."""

SECONDS_BETWEEN_LINES: Final = 10.0
SECONDS_OF_SILENCE: Final = 2.0
"""Seconds without an advance after which a bar names the event it waits for."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit in which a bar shows its amount: `size` of what it counts."""

    name: str
    size: int = 1

    def show(self, count: float) -> str:
        return f"{count / self.size:,.0f}"

    def rate(self, count: float, seconds: float) -> str:
        name = "" if self.size == 1 else f" {self.name}"
        return f"{self.show(count / seconds)}{name}/s" if count and seconds > 0 else ""


ROWS: Final = Unit("rows")
MEGABYTES: Final = Unit("MB", 1_000_000)


class Progress(Protocol):
    """Shows progress: a bar per piece of work, and steps."""

    def bar(
        self, name: str, total: int | None = None, *, unit: Unit = ROWS, waiting_for: str = FIRST_ROWS
    ) -> AbstractContextManager[Advance]:
        """Open a bar of about `total` rows or bytes, None if unknown.

        Until the first advance, it names `waiting_for`, unless that is empty.
        """

    def step(self, name: str, text: str) -> None:
        """`name` has reached a step, for instance "ready after 2.1 s"."""


class Silent:
    """Shows nothing."""

    @contextmanager
    def bar(
        self, name: str, total: int | None = None, *, unit: Unit = ROWS, waiting_for: str = FIRST_ROWS
    ) -> Iterator[Advance]:
        yield lambda count: None

    def step(self, name: str, text: str) -> None:
        """Show nothing."""


SILENT: Final[Progress] = Silent()


@dataclass(frozen=True, slots=True)
class LineProgress:
    """Steps and bars as lines for `say`: of a bar one every so many seconds."""

    say: Callable[[str], None]
    every: float = SECONDS_BETWEEN_LINES
    clock: Callable[[], float] = time.monotonic
    silence: float = SECONDS_OF_SILENCE

    @contextmanager
    def bar(
        self, name: str, total: int | None = None, *, unit: Unit = ROWS, waiting_for: str = FIRST_ROWS
    ) -> Iterator[Advance]:
        bar = _LineBar(self, name, total, unit, self.clock())
        # nobody calls the bar before its first row, so a timer says what it waits for
        waiting = threading.Timer(self.silence, bar.wait, (waiting_for,))
        # a process that ends must not wait for this timer
        waiting.daemon = True
        if waiting_for:
            waiting.start()
        try:
            yield bar.advance
        finally:
            waiting.cancel()
        # not in `finally`: a total after an error would look like success
        bar.end()

    def step(self, name: str, text: str) -> None:
        self.say(f"{name}: {text}")


@dataclass(slots=True)
class _LineBar:
    """One bar as lines. Its rate counts from `started` on, when `base` was done."""

    progress: LineProgress
    name: str
    total: int | None
    unit: Unit
    began: float
    said_at: float | None = None
    has_waited: bool = False
    started: float | None = None
    base: int = 0
    done: int = 0
    # `advance` is called from several threads, `wait` from the timer's
    lock: Any = field(default_factory=threading.Lock)

    def wait(self, event: str) -> None:
        """Name the event that the first row waits for, unless it has come; the rate then counts from the first row."""
        with self.lock:
            if not self.done:
                self.has_waited = True
                self.progress.step(self.name, f"waiting for {event}")

    def advance(self, count: int) -> None:
        with self.lock:
            self.done += count
            now = self.progress.clock()
            if self.started is None:
                # while it waited nothing flowed: counted in, that time would make the rate too small
                self.started, self.base = (now, self.done) if self.has_waited else (self.began, 0)
            if now - (self.said_at or self.began) >= self.progress.every:
                self.said_at = now
                self.progress.step(self.name, self._describe(now - self.started))

    def end(self) -> None:
        """Show the total; nothing for short work of unknown length."""
        if self.said_at is None and self.total is None and not self.has_waited:
            return
        seconds = self.progress.clock() - self.began
        done = f"{self.unit.show(self.done)} {self.unit.name} in {seconds:,.0f} s"
        rate = _with_comma(self.unit.rate(self.done, seconds))
        self.progress.step(self.name, f"{done}{rate}" if self.done else f"no {self.unit.name}")

    def _describe(self, seconds: float) -> str:
        """`120,000 of 1,000,000 rows, 25,000/s, 35 s left`; `seconds` have passed since `started`."""
        whole = f" of {self.unit.show(self.total)}" if self.total is not None else ""
        # rows from before the rate began would make the time left too short
        ahead, flowed = max((self.total or 0) - self.done, 0), self.done - self.base
        left = f"{ahead * seconds / flowed:,.0f} s left" if ahead and flowed else ""
        rate = _with_comma(self.unit.rate(flowed, seconds))
        return f"{self.unit.show(self.done)}{whole} {self.unit.name}{rate}{_with_comma(left)}"


def _with_comma(text: str) -> str:
    return f", {text}" if text else ""
