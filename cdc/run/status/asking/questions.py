"""Questions to the parts of a pipeline: each at its own pace, in the thread of its lane, with a time limit.

A thread cannot be ended from outside. So a question that is not answered in time stays under way, counts as a part that
does not answer, and is not asked again before it has come back: a part that hangs holds up its own lane only.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from cdc.core.containment import LOG, describe_error
from cdc.core.errors import CdcError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.run.health.result import format_duration

T = TypeVar("T")
ALWAYS: Final = 0.0
"""The pace of a question that every look asks."""


@dataclass(frozen=True, slots=True)
class LastAnswer(Generic[T]):
    """What is known from one question. Times are seconds since 1970 by this machine's clock.

    `value`: the newest one, kept while later tries fail. `error`: of the newest try, `since` when all have failed.
    `checked_at`: the end of the newest try; what it says holds for `holds_seconds`.
    """

    value: T | None = None
    error: CdcError | None = None
    since: float | None = None
    checked_at: float | None = None
    holds_seconds: float = float("inf")

    def is_stale(self, now: float) -> bool:
        """Was nothing heard for so long that nothing is known any more?"""
        return self.checked_at is not None and now - self.checked_at > self.holds_seconds

    @property
    def is_silent(self) -> bool:
        """Does the part not answer? One that answers with a refusal is there."""
        return isinstance(self.error, UnreachableError)


NOTHING: Final[LastAnswer[Any]] = LastAnswer()
"""The answer to a question that nobody has asked."""


def hold_seconds(every: float) -> float:
    """How long an answer holds to a question that is asked so often: five rounds, and five seconds."""
    return 5 * every + 5


class Lane:
    """A thread that asks one question after the other; starts with the first, and ends with the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, ask: Callable[[], None]) -> None:
        """Have this asked when all before it are answered."""
        if self._thread is None:
            # a daemon: a part that hangs does not keep the process
            self._thread = threading.Thread(target=self._work, name=f"status-{self._name}", daemon=True)
            self._thread.start()
        self._waiting.put(ask)

    def close(self, last: Iterable[Callable[[], None]] = ()) -> None:
        """End the thread after what it does now, and after `last`, which closes what it has opened."""
        if self._thread is not None:
            for close in last:
                self._waiting.put(close)
            self._waiting.put(None)

    def wait(self, deadline: Deadline) -> None:
        """Wait for the thread's end, until `deadline` at most."""
        if self._thread is not None:
            self._thread.join(deadline.seconds_left)

    def _work(self) -> None:
        while (ask := self._waiting.get()) is not None:
            # a session that is gone already cannot be closed: the next one can
            with suppress(Exception):
                ask()


class PacedQuestion(Generic[T]):
    """One question.

    `every`: the least seconds between two tries; `limit`: those after which a try has no answer; `holds`: how long an
    answer holds.
    """

    def __init__(
        self, name: str, lane: Lane, ask: Callable[[], T], *, every: float, limit: float, holds: float
    ) -> None:
        self.name = name
        self._lane = lane
        self._ask = ask
        self.every = every
        self._limit = limit
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._begun_at = 0.0
        self._is_asked = False
        self._due_at = float("-inf")
        self._holds = holds
        self._answer: LastAnswer[T] = NOTHING

    def begin(self, *, now: bool = False) -> bool:
        """Ask if it is due, or `now`, unless the last try is still under way; returns whether it was asked."""
        at = time.monotonic()
        if is_asked := self._idle.is_set() and (now or at >= self._due_at):
            self._idle.clear()
            # the pace holds for beginnings: a slow answer makes it no slower
            self._due_at = at + self.every
            self._begun_at = at
            self._lane.run(self._try)
        return is_asked

    @property
    def is_awaited(self) -> bool:
        """Does a look wait for it? For what each look asks, and for first answers."""
        return self.every == ALWAYS or self._answer.checked_at is None

    def wait(self, deadline: Deadline | None) -> None:
        """Wait for the try under way, until `deadline` at most; without one, until its limit is over."""
        left = self._limit - (time.monotonic() - self._begun_at)
        self._idle.wait(deadline.seconds_left if deadline else None if left == float("inf") else max(left, 0.0))

    def hurry(self) -> None:
        """Ask again with the next look, whatever the pace."""
        self._due_at = float("-inf")

    @property
    def answer(self) -> LastAnswer[T]:
        """What is known now; a try that has taken longer than the limit counts as no answer."""
        with self._lock:
            found, is_asked = self._answer, self._is_asked
        waited = time.monotonic() - self._begun_at
        if not is_asked or waited < self._limit:
            return found
        late = UnreachableError(f"{self.name} has not answered for {format_duration(waited)}", "is it up, or locked?")
        return replace(found, error=late, since=found.since or time.time() - waited)

    def _try(self) -> None:
        self._is_asked = True
        try:
            found, error = self._ask(), None
        except CdcError as failed:
            found, error = None, failed
        except Exception as failed:  # noqa: BLE001 - the other questions go on, and this part says why it is not known
            LOG.error("status of %s: %s", self.name, failed, exc_info=failed)
            found, error = None, CdcError(f"{self.name} is not known: {describe_error(failed)}", "see --debug")
        now = time.time()
        with self._lock:
            before, self._is_asked = self._answer, False
            since = (before.since or now) if error else None
            self._answer = LastAnswer(before.value if error else found, error, since, now, self._holds)
        self._idle.set()


AnyQuestion = PacedQuestion[Any]
