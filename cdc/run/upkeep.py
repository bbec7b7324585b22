"""Keeps the lake in shape beside the stream that writes it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from cdc.core.errors import CdcError
from cdc.core.position import Position
from cdc.run.failures import ours
from sinks.lake.follower import DeltaFollower

EVERY_SECONDS = 5.0
NEEDS_SECONDS = 60.0
"""How often the followers behind the lake are asked where they stand."""

Needs = Callable[[], Sequence[Position] | None]
"""Where the followers behind the lake stand; None while one does not answer."""


@contextmanager
def kept_up(follower: DeltaFollower, needs: Needs, say: Callable[[str], None]) -> Iterator[None]:
    """The lake is put in order now and then for as long as the context lasts."""
    ended = threading.Event()
    thread = threading.Thread(target=_keep_up, args=(follower, needs, say, ended), name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # a round at hand comes to its end: whoever leaves closes the tables that it works on
        thread.join()


def _keep_up(follower: DeltaFollower, needs: Needs, say: Callable[[str], None], ended: threading.Event) -> None:
    asked, stand = float("-inf"), None
    told: str | None = None
    while not ended.wait(EVERY_SECONDS):
        try:
            if time.monotonic() - asked > NEEDS_SECONDS:
                asked, stand = time.monotonic(), needs()
            if stand is not None:
                follower.maintain(stand)
            trouble = None
        # the stream is right without its upkeep, only slower: trouble is said once, and tried again
        except (CdcError, DeltaError, OSError) as error:
            trouble = str(error if isinstance(error, CdcError) else ours("the lake's upkeep", error))
        if trouble and trouble != told:
            say(f"upkeep: {trouble}")
        told = trouble
