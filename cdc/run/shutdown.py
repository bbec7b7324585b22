"""How a job that runs until it is told to stop hears of it."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

POLL_SECONDS = 0.2
"""Between two looks at whether to stop."""


class StopEvent(threading.Event):
    """Set for one stream when it is done, and for all of them when the process is to stop."""

    def __init__(self, everybody: threading.Event) -> None:
        super().__init__()
        self._everybody = everybody

    def is_set(self) -> bool:
        return super().is_set() or self._everybody.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        # either of two events ends it, and a thread can wait for one only: hence in short turns
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (deadline is None or time.monotonic() < deadline):
            super().wait(POLL_SECONDS if deadline is None else min(POLL_SECONDS, max(deadline - time.monotonic(), 0)))
        return self.is_set()


@contextmanager
def stop_on_signals(stopping: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets the batch at hand end; the second one is the usual kind."""

    def stop(number: int, frame: FrameType | None) -> None:
        say("stopping after this batch; once more to stop at once")
        stopping.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    # handlers can be set in Python's main thread only; whoever runs this in another one stops it by `stopping`
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
