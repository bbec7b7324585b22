"""What a job is given to show how far it is; how that looks is its caller's matter."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

Advance = Callable[[int], None]
"""Tells a bar that so many more rows are done."""


class Bars(Protocol):
    """Where progress is shown, one bar a piece of work."""

    def bar(self, name: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """A bar of about `total` rows, or of a number that nobody knows; safe to advance from any thread."""
