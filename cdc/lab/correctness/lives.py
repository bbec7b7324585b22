"""Workers as processes that are killed where it is planned and started again, as an orchestrator does.

`python -m cdc.lab.correctness.lives` forks every life of a worker: its memory and its connections die with it.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import Random
from threading import Thread
from typing import Any

from cdc.core.errors import UnreachableError
from cdc.lab.temporary import keep_process
from cdc.lab.workplace import Workplace


class Life:
    """One life of a worker. It says what it does, and dies at the point that is planned for it."""

    def __init__(self, worker: str, number: int, dies_at: str | None) -> None:
        self.number = number
        self._worker = worker
        self._dies_at = dies_at

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
    """What a process does, from the beginning again in each of its lives: `work(life, **arguments)`.

    `deaths`: the point at which each life ends, in order; the last one, behind these, returns from `work`. One that
    does not come back has one life only.
    """

    name: str
    work: Callable[..., None]
    arguments: dict[str, Any]
    deaths: tuple[str, ...] = ()
    comes_back: bool = True

    def as_json(self) -> dict[str, Any]:
        function = [self.work.__module__, self.work.__name__]
        named = {"name": self.name, "function": function, "arguments": self.arguments}
        return {**named, "deaths": self.deaths, "comes_back": self.comes_back}


@dataclass(frozen=True, slots=True)
class LifeReport:
    """What a life has said; or, as `died`, the signal that killed it."""

    worker: str
    life: int
    said: dict[str, Any]

    @property
    def is_death(self) -> bool:
        return "died" in self.said


def plan_deaths(random: Random, what: str, kinds: Sequence[str], places: Sequence[int]) -> tuple[str, ...]:
    """Plan a point for each kind, at different places and in their order: `batch 3, halfway`."""
    chosen = sorted(random.sample(places, len(kinds)))
    shuffled = random.sample(kinds, len(kinds))
    return tuple(f"{what} {place}, {kind}" for place, kind in zip(chosen, shuffled, strict=True))


def run_workers(place: Workplace, workers: Sequence[Worker]) -> list[LifeReport]:
    """Let all work at once, until each has returned; returns their reports in the order of time."""
    process = place.keep(keep_process(__name__))
    if process.stdin is None or process.stdout is None:
        raise ValueError("a process without pipes")
    # not among the arguments, which others see: a connection string may have a password
    process.stdin.write(f"{json.dumps([worker.as_json() for worker in workers])}\n")
    process.stdin.flush()
    reports = [LifeReport(**json.loads(line)) for line in process.stdout]
    if process.wait():
        raise UnreachableError("a worker of the lab failed, see above", "see `cdc parts`")
    return reports


def main() -> None:
    """Start every worker, and start it again when it was killed. All end when stdin does."""
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    workers: list[dict[str, Any]] = json.loads(sys.stdin.readline())
    for worker in workers:
        import_module(worker["function"][0])
    alive = {_begin(worker, 0): (worker, 0) for worker in workers}
    while alive:
        pid, status = os.wait()
        worker, number = alive.pop(pid)
        if os.WIFSIGNALED(status):
            Life(worker["name"], number, None).report(died=os.WTERMSIG(status))
            if worker["comes_back"]:
                alive[_begin(worker, number + 1)] = (worker, number + 1)
        elif status:
            sys.exit(1)


def _begin(worker: dict[str, Any], number: int) -> int:
    """Fork; the child works and never returns. Returns the number of its process."""
    if pid := os.fork():
        return pid
    Thread(target=_end_with_stdin, daemon=True).start()
    deaths = worker["deaths"]
    module, function = worker["function"]
    life = Life(worker["name"], number, deaths[number] if number < len(deaths) else None)
    getattr(import_module(module), function)(life, **worker["arguments"])
    os._exit(0)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
