"""The threads in which views are computed as a whole, so that a computation of minutes holds up no other view.

They are few, since each may hold a large result, and Spark's memory is shared. Tables that are small wait for no large
ones: not all threads take these.
"""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread, current_thread
from typing import Any, Final, Generic, TypeVar

from pyspark.sql import SparkSession

from cdc.core.waiting import Deadline

THREADS: Final = 4
LARGE_AT_ONCE: Final = 2
"""Computations over large tables."""
NAMES: Final = [f"views {number}" for number in range(1, THREADS + 1)]
CLOSE_SECONDS: Final = 20.0
CANCEL_SECONDS: Final = 0.5
"""Pause between two requests to end Spark's jobs: a thread may begin another one meanwhile."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ComputationOutcome(Generic[T]):
    """What a computation came to: its value or its error, and how long it took."""

    seconds: float
    value: T | None
    error: BaseException | None

    def require(self) -> T:
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


@dataclass(frozen=True, slots=True)
class RunningComputation(Generic[T]):
    """A computation in a thread of its own. `tag`: of its jobs in Spark."""

    future: "Future[ComputationOutcome[T]]"
    tag: str
    is_large: bool


class ComputingThreads:
    """Runs computations beside each other.

    `spark` gets their jobs, with a tag, and in a scheduler pool a thread, so that none waits for another's tasks.
    `ring` is called whenever one has ended.
    """

    def __init__(self, spark: SparkSession | None, ring: Callable[[], None]) -> None:
        self._spark = spark
        self._ring = ring
        self._running: dict[str, RunningComputation[Any]] = {}
        """By the name of the thread."""
        self._has_ended = Event()

    def has_room(self, *, is_large: bool) -> bool:
        """Whether a computation over small or large tables can begin now."""
        self._running = {name: each for name, each in self._running.items() if not each.future.done()}
        large = sum(each.is_large for each in self._running.values())
        return len(self._running) < THREADS and (large < LARGE_AT_ONCE or not is_large)

    def start(self, work: Callable[[], T], *, is_large: bool) -> RunningComputation[T]:
        """Begin a computation; only if there is room for it."""
        assert self.has_room(is_large=is_large)
        name = next(name for name in NAMES if name not in self._running)
        running: RunningComputation[T] = RunningComputation(Future(), f"cdc-view-{uuid.uuid4().hex}", is_large)
        running.future.add_done_callback(self._tell)
        self._running[name] = running
        # a daemon: a job that Spark cannot end is no reason for the process to live on
        Thread(target=self._run, args=(work, running), name=name, daemon=True).start()
        return running

    def wait_for_any(self) -> None:
        """Wait until a computation has ended since the last call, if any runs."""
        if not all(each.future.done() for each in self._running.values()):
            self._has_ended.wait()
        self._has_ended.clear()

    def cancel(self, running: RunningComputation[T]) -> None:
        """Let a computation end: nobody asks for it any more. Its thread is free once Spark has ended its job."""
        if self._spark is not None and not running.future.done():
            # Java may be gone, and its jobs with it
            with suppress(Exception):
                self._spark.sparkContext.cancelJobsWithTag(running.tag)

    def close(self) -> None:
        """End all computations, and wait a while for their threads: what they do is not used any more."""
        deadline = Deadline(CLOSE_SECONDS)
        while not deadline.is_past and not all(each.future.done() for each in self._running.values()):
            for each in self._running.values():
                self.cancel(each)
            wait([each.future for each in self._running.values()], CANCEL_SECONDS)

    def _tell(self, ended: "Future[ComputationOutcome[T]]") -> None:
        self._has_ended.set()
        self._ring()

    def _run(self, work: Callable[[], T], running: RunningComputation[T]) -> None:
        began = time.monotonic()
        try:
            self._mark_jobs(running.tag)
            value = work()
            outcome = ComputationOutcome(time.monotonic() - began, value, None)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever takes the outcome
            outcome = ComputationOutcome(time.monotonic() - began, None, error)
        running.future.set_result(outcome)

    def _mark_jobs(self, tag: str) -> None:
        if self._spark is not None:
            context = self._spark.sparkContext
            context.addJobTag(tag)
            context.setInterruptOnCancel(interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", current_thread().name)
