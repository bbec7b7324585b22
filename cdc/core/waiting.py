"""Waiting for a condition, with a limit. Retries of a call that failed are stamina's."""

import time
from collections.abc import Callable


class Deadline:
    """A moment, `seconds` after it was made."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float) -> None:
        # the clock of the wall may be set meanwhile, this one only goes on
        self._at = time.monotonic() + seconds

    @property
    def is_past(self) -> bool:
        return time.monotonic() >= self._at

    @property
    def seconds_left(self) -> float:
        """The seconds until the moment; 0.0 when it is past."""
        return max(self._at - time.monotonic(), 0.0)


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.2) -> bool:
    """Ask for the condition again and again, until it holds; returns False when it does not within `seconds`."""
    deadline = Deadline(seconds)
    # asked at least once, even with a limit of 0 s
    while not condition():
        if deadline.is_past:
            return False
        time.sleep(every)
    return True
