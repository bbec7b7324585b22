"""Waiting for a condition, with a limit; and threads that work meanwhile."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from cdc.core.errors import UnreachableError
from cdc.core.waiting import wait_until

T = TypeVar("T")
USUAL_SECONDS: Final = 120.0


def wait_for(condition: Callable[[], bool], awaited: str, seconds: float = USUAL_SECONDS) -> None:
    """Wait until the condition holds. Raises UnreachableError, which names `awaited`, after `seconds`."""
    if not wait_until(condition, seconds, every=0.01):
        raise UnreachableError(f"waited {seconds:.0f} s in vain: {awaited}", "run the lab again, or see `cdc parts`")


def run_at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run every job in a thread of its own; returns their results in the order of the jobs."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        return [running.result() for running in [threads.submit(job) for job in jobs]]


@contextmanager
def in_background(works: Sequence[Callable[[Event], object]]) -> Iterator[None]:
    """Let every work go on in a thread until the context ends, which sets its event."""
    is_over = Event()
    threads = [Thread(target=work, args=(is_over,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def read_clock() -> float:
    """Milliseconds, from an unknown beginning."""
    return time.monotonic() * 1000
