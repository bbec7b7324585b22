"""Waiting for a condition, with a generous limit."""

import time
from collections.abc import Callable

LIMIT_SECONDS = 180.0


def until(condition: Callable[[], bool], what: str, limit: float = LIMIT_SECONDS, every: float = 0.05) -> None:
    """Return when the condition holds; fail the test, naming `what`, when it does not in time.

    `every`: seconds between two looks, for those that disturb what is looked at.
    """
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not in {limit:.0f} s: {what}"
        time.sleep(every)
