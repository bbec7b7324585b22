"""What a job is given to show how far it is; how that looks is its caller's matter."""

from collections.abc import Callable
from contextlib import AbstractContextManager
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
