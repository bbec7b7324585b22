"""Asks a part once, on a thread of its own, for all checks that need the answer."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from cdc.core.errors import CdcError, UnreachableError
from cdc.core.waiting import Deadline

Answer = TypeVar("Answer")


class SilentPartError(Exception):
    """A part has not answered, or refused to: `error` says why. It is one finding, however many checks need the part.

    `check`: the name of that finding.
    """

    def __init__(self, check: str, about: str, error: CdcError) -> None:
        super().__init__(str(error))
        self.check = check
        self.about = about
        self.error = error

    def __reduce__(self) -> tuple[type["SilentPartError"], tuple[str, str, CdcError]]:
        # else another process would make it anew of its text alone
        return SilentPartError, (self.check, self.about, self.error)


class PartQuestion(Generic[Answer]):
    """A question to a part. Whoever asks first starts it; whoever waits longer than `seconds` hears of no answer.

    A thread that hangs is left behind: it ends with the process.
    """

    def __init__(self, check: str, about: str, ask: Callable[[], Answer], seconds: float) -> None:
        self._check, self._about, self._ask, self._seconds = check, about, ask, seconds
        self._lock = threading.Lock()
        self._deadline: Deadline | None = None
        self._done = threading.Event()
        self._answer: Answer
        self._error: BaseException | None = None

    def give(self, answer: Answer) -> None:
        """Answer it, so that nobody is asked."""
        self._answer, self._deadline = answer, Deadline(0)
        self._done.set()

    def get(self) -> Answer:
        """The answer. Raises SilentPartError."""
        with self._lock:
            if self._deadline is None:
                self._deadline = Deadline(self._seconds)
                threading.Thread(target=self._run, name=f"doctor {self._check}", daemon=True).start()
        if not self._done.wait(self._deadline.seconds_left):
            silent = UnreachableError(f"{self._about} has not answered within {self._seconds:.0f} s", "is it busy?")
            raise SilentPartError(self._check, self._about, silent)
        if isinstance(self._error, CdcError):
            raise SilentPartError(self._check, self._about, self._error)
        # a SilentPartError among them: the question may know better which step has failed
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # noqa: BLE001 - it is raised to who waits
            self._error = error
        self._done.set()
