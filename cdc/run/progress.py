"""What a job is given to show how far it is; how that looks is its caller's matter."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

Advance = Callable[[int], None]
"""Tells a bar that so many more rows are done."""

FIRST_ROWS = "the first rows"
SPARKS_ROWS = "Spark's first rows"
"""What bars may wait for; the first job of a session starts Spark's Python workers, which takes seconds."""


class Bars(Protocol):
    """Where progress is shown, one bar a piece of work."""

    def bar(
        self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS
    ) -> AbstractContextManager[Advance]:
        """A bar of about `total` rows, or of a number that nobody knows; safe to advance from any thread.

        Until the first row it says what is waited for.
        """


@dataclass(frozen=True, slots=True)
class LineBars:
    """A bar as lines among others, one every so many seconds."""

    say: Callable[[str], None]
    every: float = 30.0

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        self.say(f"{name}: copying" + ("" if total is None else f" about {total:,} rows"))
        lock, done, told = threading.Lock(), 0, time.monotonic()

        def advance(rows: int) -> None:
            nonlocal done, told
            with lock:
                done += rows
                if time.monotonic() - told > self.every:
                    told = time.monotonic()
                    self.say(f"{name}: {done:,} rows copied")

        yield advance
