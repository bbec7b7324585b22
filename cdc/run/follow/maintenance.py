"""Compacts and vacuums the lake, in a thread beside the stream that writes it."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from cdc.core.containment import LOG, describe_error
from cdc.core.counters import COUNTERS, UPKEEP_SECONDS
from cdc.core.errors import CdcError
from cdc.core.position import Position
from cdc.core.text.lines import WarningLine
from cdc.run.background import run_in_background
from cdc.run.spark.errors import to_cdc_error
from cdc.sinks.lake.maintenance import LakeMaintenance

EVERY_SECONDS = 5.0
POSITIONS_SECONDS = 60.0
"""Pause between two looks at the positions of the followers behind the lake."""

ReadPositions = Callable[[], Sequence[Position] | None]
"""Reads the positions of the followers behind the lake; None while one does not answer."""


def run_maintenance(
    maintenance: LakeMaintenance, read_positions: ReadPositions, say: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Maintain the lake, or its views, every EVERY_SECONDS, as long as the context lasts."""
    # leaving waits for the current round: the caller then closes the tables that the round works on
    return run_in_background(partial(_maintain, maintenance, read_positions, say), "maintenance")


def _maintain(
    maintenance: LakeMaintenance, read_positions: ReadPositions, say: Callable[[str], None], ended: threading.Event
) -> None:
    read_at, positions = float("-inf"), None
    last_problem: str | None = None
    while not ended.wait(EVERY_SECONDS):
        try:
            # rarely: each look asks every follower's server, and old positions only keep more history than needed
            if time.monotonic() - read_at > POSITIONS_SECONDS:
                read_at, positions = time.monotonic(), read_positions()
            if positions is not None:
                began = time.monotonic()
                maintenance.run(positions)
                COUNTERS.add(UPKEEP_SECONDS, by=time.monotonic() - began)
            problem = None
        # without maintenance the stream is slower but right: the problem is said once, and the round tried again
        except Exception as error:  # noqa: BLE001 - a thread that ends in silence leaves the lake without upkeep
            problem = _describe(error)
        if problem and problem != last_problem:
            say(WarningLine(f"maintenance: {problem}"))
        last_problem = problem


def _describe(error: Exception) -> str:
    if isinstance(error, CdcError):
        return str(error)
    if isinstance(error, OSError):
        return str(to_cdc_error("the lake's maintenance", error))
    # nobody expected it: the traceback goes to the log
    LOG.error("maintenance: %s", error, exc_info=error)
    return describe_error(error)
