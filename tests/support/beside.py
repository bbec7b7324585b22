"""What goes on beside a test."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeated(run: Callable[[], object], pause: float = 0.0) -> Iterator[None]:
    """Run it again and again in a thread as long as the context lasts; where it fails, so does the test.

    `pause`: seconds before each time.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(pause):
            run()

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(repeat)
        try:
            yield
        finally:
            ended.set()
    done.result()
