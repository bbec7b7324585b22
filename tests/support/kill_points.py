"""Fail points at which a verb is killed, while something is written beside it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc.core.fail_points import FailPoint
from tests.support.cdc_subprocess import started
from tests.support.parts.pipelines import Pipeline
from tests.support.workload import Workload


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


def kill(pipeline: Pipeline, verb: str, point: FailPoint, passage: int = 1) -> None:
    """Run a verb, which is killed when it passes the point for the nth time."""
    with started(pipeline, verb, fail_points=f"{point}:kill@{passage}") as running:
        assert running.join() == -signal.SIGKILL, running.said
