"""What all writers are: a thread with a session of its own, at a rate, that survives whatever happens to the source."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, ClassVar, Final

import psycopg

from cdc.torture.site import TortureSite

BETWEEN_TRIES_SECONDS: Final = 0.2
Session = psycopg.Connection[Any]


class Writer(ABC):
    """Writes one transaction after another, planned by chance from the seed and its name.

    `share`: its part of the whole rate. `written`: transactions that were acknowledged.
    """

    share: ClassVar[float] = 1.0

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = Random(f"{name} of {seed}")  # noqa: S311 - chance that comes again
        self.written = 0
        self.failure: BaseException | None = None

    @abstractmethod
    def write(self, session: Session) -> None:
        """Write one transaction; a session that breaks may have committed it or not."""


class Writers:
    """Writers at work. `rate`: transactions a second of all of them."""

    def __init__(self, site: TortureSite, writers: Sequence[Writer], rate: float) -> None:
        self.writers = writers
        self._site = site
        shares = sum(each.share for each in writers)
        self._pauses = {each.name: shares / (rate * each.share) for each in writers}
        self._locks = {each.name: threading.Lock() for each in writers}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in writers]

    @property
    def written(self) -> int:
        return sum(each.written for each in self.writers)

    @contextmanager
    def at_work(self) -> Iterator["Writers"]:
        """They write until the context ends."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Nothing is written meanwhile: whatever was begun is done before."""
        for lock in self._locks.values():
            lock.acquire()
        try:
            yield
        finally:
            for lock in self._locks.values():
                lock.release()

    def check(self) -> None:
        """Raise what ended one of them."""
        for writer in self.writers:
            if writer.failure is not None:
                raise writer.failure

    def _work(self, writer: Writer) -> None:
        try:
            while not self._over.is_set():
                with suppress(psycopg.OperationalError, psycopg.InterfaceError), self._site.connect() as session:
                    self._write(writer, session)
                self._over.wait(BETWEEN_TRIES_SECONDS)
        except BaseException as failure:  # noqa: BLE001 - told by `check`
            writer.failure = failure

    def _write(self, writer: Writer, session: Session) -> None:
        pause, lock = self._pauses[writer.name], self._locks[writer.name]
        while not self._over.wait(pause):
            with lock:
                writer.write(session)
            writer.written += 1


def read_clock() -> float:
    """The clock of all histories, in seconds; nobody sets it."""
    return time.monotonic()
