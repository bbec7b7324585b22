"""Runs work in a thread as long as a context lasts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_in_background(
    work: Callable[[threading.Event], None], name: str, patience: float | None = None
) -> Iterator[None]:
    """Run `work` in a thread of this name; its event is set at the end of the context, and it should return then.

    The end waits for it, at most `patience` seconds if given. The thread is a daemon: it ends with the process.
    """
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(patience)
