"""Waiting in a lab: for a condition, with a limit."""

from collections.abc import Callable
from typing import Final

from cdc.core.errors import UnreachableError
from cdc.core.waiting import wait_until

USUAL_SECONDS: Final = 120.0


def wait_for(condition: Callable[[], bool], what: str, seconds: float = USUAL_SECONDS) -> None:
    """Wait until the condition holds. Raises UnreachableError, which names `what` was awaited, after `seconds`."""
    if not wait_until(condition, seconds, every=0.01):
        raise UnreachableError(f"waited {seconds:.0f} s in vain: {what}", "run the lab again, or see `cdc parts`")
