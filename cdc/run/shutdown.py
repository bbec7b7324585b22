"""Events and signals that stop a job."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from cdc.core.waiting import Deadline

POLL_SECONDS = 0.2
"""Pause between two looks at the events."""


class StopEvent(threading.Event):
    """An event of one stream that also counts as set when `everybody` is: the whole process is to stop."""

    def __init__(self, everybody: threading.Event) -> None:
        super().__init__()
        self._everybody = everybody

    def is_set(self) -> bool:
        return super().is_set() or self._everybody.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        # a thread can wait for one event only, and either of two ends this: hence short waits
        deadline = Deadline(math.inf if timeout is None else timeout)
        while not self.is_set() and not deadline.is_past:
            super().wait(min(POLL_SECONDS, deadline.seconds_left))
        return self.is_set()


class StreamEnd(StopEvent):
    """The end of a stream, which also counts as set while `asks` says that it is to end for a while only."""

    def __init__(self, everybody: threading.Event, asks: Callable[[], bool]) -> None:
        super().__init__(everybody)
        self._asks = asks

    @property
    def is_for_good(self) -> bool:
        return super().is_set()

    def is_set(self) -> bool:
        return self.is_for_good or self._asks()


@contextmanager
def stop_on_signals(stopping: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """Set `stopping` at the first Ctrl-C or SIGTERM, so that the current batch ends; the second one ends at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        say("stopping after this batch; once more to stop at once")
        stopping.set()
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    # Python allows handlers in the main thread only; a caller in another thread sets `stopping` itself
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
