"""How much of the time a verification works, and when it ends."""

import threading
import time
from dataclasses import dataclass, field


class StoppedError(Exception):
    """The verification was told to end."""


@dataclass(slots=True)
class DutyCycle:
    """Lets its caller work for `share` of the time (at most 1), in one thread; it ends once `stopping` is set."""

    share: float = 1.0
    stopping: threading.Event = field(default_factory=threading.Event)
    _since: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """What was before is no work: it was waited."""
        self._since = time.monotonic()

    def rest(self) -> None:
        """Rest for what was done since the last rest. Raises StoppedError once it is to end."""
        worked = time.monotonic() - self._since
        if self.stopping.wait(worked * (1 / self.share - 1)) or self.stopping.is_set():
            raise StoppedError
        self.begin()

    def check(self) -> None:
        """Raise StoppedError once it is to end."""
        if self.stopping.is_set():
            raise StoppedError
