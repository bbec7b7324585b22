"""Looks at something again and again, beside the bench."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import Failed


@dataclass(slots=True)
class Watching:
    """A look that is repeated in a thread; it ends when a look raises something."""

    failure: BaseException | None = None

    def check(self) -> bool:
        """False, for use in conditions; Failed when nobody looks any more."""
        if self.failure:
            raise Failed(f"nobody watches any more: {self.failure}") from self.failure
        return False


@contextmanager
def repeated(look: Callable[[], object], seconds: float) -> Iterator[Watching]:
    """Look every so many seconds as long as the context lasts."""
    watching, ended = Watching(), threading.Event()

    def run() -> None:
        try:
            while not ended.wait(seconds):
                look()
        except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits for what is watched
            watching.failure = failure

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watching
    finally:
        ended.set()
        thread.join()
