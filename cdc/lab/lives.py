"""Workers as processes that are killed where it is planned and started again, as an orchestrator does.

`python -m cdc.lab.lives` forks every life of a worker: its memory and its connections die with it.
"""

import json
import logging
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from typing import Any, Final

from cdc.core.errors import UnreachableError
from cdc.lab.temporary import keep_process
from cdc.lab.workplace import Workplace

GRACE_SECONDS: Final = 10.0  # so long may a worker go on when the lab has ended


class Life:
    """One life of a worker. It tells of its work, and dies at the point that is planned for it."""

    def __init__(self, worker: str, number: int, dies_at: str | None = None) -> None:
        self.number = number
        self.is_over = Event()
        self._worker, self._dies_at = worker, dies_at

    def pass_point(self, point: str) -> None:
        """Die here, if that is planned: nothing is closed, nothing flushed, and nobody is told."""
        if point == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def report(self, **said: Any) -> None:
        """Tell the lab, which survives."""
        sys.stdout.write(f"{json.dumps({'worker': self._worker, 'life': self.number, 'said': said})}\n")
        sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Worker:
    """The work of a process, which can be pickled, from the beginning again in each of its lives.

    `deaths`: the point at which each life ends, in order; the last one, behind these, returns from `work`. One that
    does not come back has one life only.
    """

    name: str
    work: Callable[[Life], None]
    deaths: tuple[str, ...] = ()
    comes_back: bool = True


@dataclass(frozen=True, slots=True)
class LifeReport:
    """Something that a life has said; or, as `died`, the signal that killed it."""

    worker: str
    life: int
    said: dict[str, Any]

    @property
    def is_death(self) -> bool:
        return "died" in self.said


def plan_deaths(random: Random, subject: str, kinds: Sequence[str], places: Sequence[int]) -> tuple[str, ...]:
    """Plan a point for each kind, at different places and in their order: `batch 3, halfway`."""
    chosen = sorted(random.sample(places, len(kinds)))
    shuffled = random.sample(kinds, len(kinds))
    return tuple(f"{subject} {place}, {kind}" for place, kind in zip(chosen, shuffled, strict=True))


class WorkerProcesses:
    """Workers that work at once. `reports`: all that they have said until now, in the order of time."""

    def __init__(self, place: Workplace, workers: Sequence[Worker]) -> None:
        self.reports: list[LifeReport] = []
        self._process = place.keep(keep_process("cdc.lab.lives"))
        if self._process.stdin is None:
            raise ValueError("a process without pipes")
        # not among the arguments, which others see: a connection string may have a password
        self._process.stdin.write(f"{pickle.dumps(list(workers)).hex()}\n")
        self._process.stdin.flush()
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()

    def wait(self) -> list[LifeReport]:
        """Wait until every worker has returned; returns all reports."""
        self._listening.join()
        if self._process.wait():
            raise UnreachableError("a worker of the lab failed, see above", "see `cdc parts`")
        return self.reports

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self.reports.append(LifeReport(**json.loads(line)))


def main() -> None:
    """Start every worker, and start it again when it was killed. All end when stdin does."""
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    workers: list[Worker] = pickle.loads(bytes.fromhex(sys.stdin.readline()))  # noqa: S301
    alive = {_begin(worker, 0): (worker, 0) for worker in workers}
    while alive:
        pid, status = os.wait()
        worker, number = alive.pop(pid)
        if os.WIFSIGNALED(status):
            Life(worker.name, number).report(died=os.WTERMSIG(status))
            if worker.comes_back:
                alive[_begin(worker, number + 1)] = (worker, number + 1)
        elif status:
            sys.exit(1)


def _begin(worker: Worker, number: int) -> int:
    """Fork; the child works and never returns. Returns the number of its process."""
    if pid := os.fork():
        return pid
    life = Life(worker.name, number, worker.deaths[number] if number < len(worker.deaths) else None)
    Thread(target=_end_with_stdin, args=(life,), daemon=True).start()
    worker.work(life)
    os._exit(0)


def _end_with_stdin(life: Life) -> None:
    sys.stdin.read()
    life.is_over.set()
    time.sleep(GRACE_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
