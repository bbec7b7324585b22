"""Progress bars, as a job uses them; the caller decides how they look."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

Advance = Callable[[int], None]
"""Advances a bar by so many rows."""

FIRST_ROWS = "the first rows"
SPARKS_ROWS = "Spark's first rows"
"""The events a bar waits for. The first job of a session starts Spark's Python workers, which takes seconds."""


class Bars(Protocol):
    """Shows progress, one bar per piece of work."""

    def bar(
        self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS
    ) -> AbstractContextManager[Advance]:
        """Open a bar of about `total` rows, None if unknown; it can be advanced from any thread.

        Until the first row, it names `waiting_for`.
        """


@dataclass(frozen=True, slots=True)
class LineBars:
    """Bars as lines of a log: one at the start, then at most one in `every` seconds."""

    say: Callable[[str], None]
    every: float = 30.0

    @contextmanager
    def bar(self, name: str, total: int | None = None, *, waiting_for: str = FIRST_ROWS) -> Iterator[Advance]:
        self.say(f"{name}: copying" + ("" if total is None else f" about {total:,} rows"))
        # rows come from several threads of one copy
        lock, done, said_at = threading.Lock(), 0, time.monotonic()

        def advance(rows: int) -> None:
            nonlocal done, said_at
            with lock:
                done += rows
                if time.monotonic() - said_at > self.every:
                    said_at = time.monotonic()
                    self.say(f"{name}: {done:,} rows copied")

        yield advance
