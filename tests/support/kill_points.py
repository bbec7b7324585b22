"""Moments at which a verb is killed, while something is written beside it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.cdc_subprocess import Running, started
from tests.support.parts.pipelines import Pipeline
from tests.support.workload import Workload

Moment = Callable[[Running], bool]


def said(text: str, running: Running) -> bool:
    return text in running.said


class Commits:
    """Has a table, by the folder of its files, more commits than when it was looked at first?"""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._before = self._count()

    def __call__(self, _: Running) -> bool:
        return self._count() > self._before

    def _count(self) -> int:
        return len(list(self._log.glob("*.json")))


@contextmanager
def writes(work: Workload, changes: int) -> Iterator[None]:
    """So many changes beside what is done here; all are written at the end."""

    def write() -> None:
        while work.changes < changes:
            work.write(20)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def kill(pipeline: Pipeline, verb: str, what: str, moment: Moment) -> None:
    with started(pipeline, verb) as running:
        running.wait_until(partial(moment, running), what)
