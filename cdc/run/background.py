"""Work that is done in a thread of its own, beside the stream."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_in_background(
    work: Callable[[threading.Event], None], name: str, patience: float | None = None
) -> Iterator[None]:
    """`work` is done for as long as the context lasts; it ends soon after its event is set.

    What it is at then is waited for, `patience` seconds at most where there is a bound; it goes with the process.
    """
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(patience)
