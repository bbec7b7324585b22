"""Keeps the lake in shape beside the stream that writes it."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from cdc.core.errors import CdcError
from cdc.core.position import Position
from cdc.run.background import run_in_background
from cdc.run.spark.arenas import release_memory
from cdc.run.spark.errors import to_cdc_error
from sinks.lake.follower import DeltaFollower

EVERY_SECONDS = 5.0
GIVEN_BACK_SECONDS = 15.0
"""How often memory is given back that nobody uses."""
NEEDS_SECONDS = 60.0
"""How often the followers behind the lake are asked where they stand."""

ReadPositions = Callable[[], Sequence[Position] | None]
"""Where the followers behind the lake stand; None while one does not answer."""


def run_maintenance(
    follower: DeltaFollower, needs: ReadPositions, say: Callable[[str], None]
) -> AbstractContextManager[None]:
    """The lake is put in order now and then for as long as the context lasts."""
    # a round at hand comes to its end: whoever leaves closes the tables that it works on
    return run_in_background(partial(_maintain, follower, needs, say), "upkeep")


def _maintain(
    follower: DeltaFollower, needs: ReadPositions, say: Callable[[str], None], ended: threading.Event
) -> None:
    asked, stand, gave_back = float("-inf"), None, time.monotonic()
    told: str | None = None
    while not ended.wait(EVERY_SECONDS):
        try:
            if time.monotonic() - asked > NEEDS_SECONDS:
                asked, stand = time.monotonic(), needs()
            if stand is not None:
                follower.maintain(stand)
            trouble = None
            # behind a round, which holds most of all that the driver holds
            if time.monotonic() - gave_back > GIVEN_BACK_SECONDS:
                gave_back = time.monotonic()
                release_memory()
        # the stream is right without its upkeep, only slower: trouble is said once, and tried again
        except (CdcError, OSError) as error:
            trouble = str(error if isinstance(error, CdcError) else to_cdc_error("the lake's upkeep", error))
        if trouble and trouble != told:
            say(f"upkeep: {trouble}")
        told = trouble
