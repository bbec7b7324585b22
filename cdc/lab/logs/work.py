"""Workers and their messages, whichever way they get them: who had which, when, and in which order they were done."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from threading import Condition
from typing import Final

MESSAGES: Final = 32
KEYS: Final = 4
USUAL_SECONDS: Final = 0.002
"""How long a message takes its worker."""
SLOW_SECONDS: Final = 2.0
DYING_SECONDS: Final = 2.0
"""How long a worker that will die has its message, unless another one overtakes it before."""


class DiedError(Exception):
    """The worker's process is gone, in the middle of a message."""


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """The key of each message; at which one its first worker dies, and which one takes long."""

    keys: tuple[int, ...]
    deadly: int
    slow: int


@dataclass(frozen=True, slots=True)
class Handling:
    """A message in the hands of a worker; `done` is False when the worker died over it."""

    worker: str
    number: int
    start: float
    end: float
    done: bool


def plan_work(random: Random) -> WorkPlan:
    """Plan messages: the deadly one comes early, and the two behind it have its key; the slow one comes later."""
    keys = [random.randrange(KEYS) for _ in range(MESSAGES)]
    deadly = random.randrange(2, 6)
    keys[deadly + 1] = keys[deadly + 2] = keys[deadly]
    return WorkPlan(tuple(keys), deadly, random.randrange(deadly + 4, MESSAGES // 2))


class WorkDay:
    """What the workers have done; several threads work at once."""

    def __init__(self, plan: WorkPlan) -> None:
        self._plan = plan
        self._changed = Condition()
        self._has_died = False
        self.handled: list[Handling] = []

    @property
    def is_over(self) -> bool:
        """Is every message done?"""
        return len({each.number for each in list(self.handled) if each.done}) == MESSAGES

    def work(self, worker: str, number: int) -> None:
        """Handle a message. Raises DiedError at the deadly one, the first time."""
        start = time.monotonic()
        if number == self._plan.deadly and not self._has_died:
            self._has_died = True
            with self._changed:
                self._changed.wait_for(self._is_overtaken, DYING_SECONDS)
            self._note(Handling(worker, number, start, time.monotonic(), done=False))
            raise DiedError
        # stands for what a worker does with a message
        time.sleep(SLOW_SECONDS if number == self._plan.slow else USUAL_SECONDS)
        self._note(Handling(worker, number, start, time.monotonic(), done=True))

    def _is_overtaken(self) -> bool:
        return any(each.done and each.number == self._plan.deadly + 1 for each in self.handled)

    def _note(self, handling: Handling) -> None:
        with self._changed:
            self.handled.append(handling)
            self._changed.notify_all()


def count_overtaken(plan: WorkPlan, handled: Sequence[Handling]) -> int:
    """Count the messages that were done after a later message of the same key."""
    order = [each.number for each in sorted(handled, key=lambda each: each.end) if each.done]
    place = {number: at for at, number in enumerate(order)}

    def is_overtaken(number: int) -> bool:
        later = (other for other in range(number + 1, MESSAGES) if plan.keys[other] == plan.keys[number])
        return any(place[other] < place[number] for other in later)

    return sum(map(is_overtaken, range(MESSAGES)))


def count_held_up(plan: WorkPlan, handled: Sequence[Handling]) -> int:
    """Count the messages behind the slow one that no worker took before it was done."""
    done = {each.number: each for each in handled if each.done}
    return sum(done[number].start >= done[plan.slow].end for number in range(plan.slow + 1, MESSAGES))
