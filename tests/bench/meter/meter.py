"""The meter: looks at the watched processes now and then, and says what a window of time took."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.bench.goal import Failed, Usage
from tests.bench.meter.account import Account, Key, since
from tests.bench.meter.trees import BENCH, DRIVER, Seen, watched

LOOK_SECONDS = 0.25
WALK_EVERY, WEIGH_EVERY = 4, 8
"""Looks between two walks through all processes, and between two weighings: these cost more than a look."""


@dataclass(slots=True)
class Window:
    """A stretch of time that is measured; `usage` is there when it has ended."""

    began: float
    then: dict[str, float]
    _usage: Usage | None = None

    @property
    def usage(self) -> Usage:
        if self._usage is None:
            raise Failed("the window is still open")
        return self._usage

    def end(self, now: dict[str, float], peak: dict[str, int], together: int) -> None:
        self._usage = Usage(round(time.monotonic() - self.began, 4), since(self.then, now), peak, together)


@dataclass(slots=True)
class Meter:
    """Watches the harness and the roots that it is told of, in a thread, while its context lasts."""

    _roots: dict[int, str] = field(default_factory=lambda: {os.getpid(): BENCH})
    _account: Account = field(default_factory=Account)
    _known: dict[Key, Seen] = field(default_factory=dict)
    _peak: dict[str, int] = field(default_factory=dict)
    _together: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Meter":
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def watch(self, pid: int, role: str = DRIVER) -> None:
        """Watch a process and all below it under this role; a DRIVER's children by what they are."""
        with self._lock:
            self._roots[pid] = role

    def leave(self, pid: int) -> None:
        """Watch it no longer."""
        with self._lock:
            self._look()
            self._roots.pop(pid, None)

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Measure what happens inside."""
        with self._lock:
            self._walk()
            self._look()
            self._peak, self._together = {}, 0
            self._weigh()
            window = Window(time.monotonic(), self._account.seconds())
        yield window
        with self._lock:
            self._walk()
            self._look()
            self._weigh()
            window.end(self._account.seconds(), dict(self._peak), self._together)

    def _run(self) -> None:
        looks = 0
        while not self._ended.wait(LOOK_SECONDS):
            with self._lock:
                if looks % WALK_EVERY == 0:
                    self._walk()
                self._look()
                if looks % WEIGH_EVERY == 0:
                    self._weigh()
            looks += 1

    def _walk(self) -> None:
        """Find the processes that belong to the trees now; one that was seen in them belongs to them for good.

        A Spark whose driver has ended is below no root any more, and still works.
        """
        self._known |= {each.key: each for each in watched(self._roots)}

    def _look(self) -> None:
        observed = {key: taken for key, each in self._known.items() if (taken := each.observed())}
        self._known = {key: self._known[key] for key in observed}
        self._account.see(observed.values())

    def _weigh(self) -> None:
        now: dict[str, int] = {}
        for each in self._known.values():
            now[each.role] = now.get(each.role, 0) + each.proportional_bytes()
        for role, size in now.items():
            self._peak[role] = max(self._peak.get(role, 0), size)
        self._together = max(self._together, sum(size for role, size in now.items() if role != BENCH))
