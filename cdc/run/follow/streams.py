"""Runs streams, one per follower, each at its own pace: starts one again that failed, and stops all of them cleanly."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.core.errors import CdcError, ConfigurationError, HistoryLostError, RefusedError, UnreachableError
from cdc.core.position import Position
from cdc.core.text.lines import WarningLine
from cdc.run.spark.errors import SparkEndedError, to_cdc_error

RETRIES_SECONDS = 600.0
"""How long a stream is retried whose every try fails within LONGEST_WAIT_SECONDS."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 30.0
FINAL = (RefusedError, HistoryLostError, ConfigurationError, SparkEndedError)
"""Failures that no waiting repairs: another writer took over, changes are gone, settings are wrong, Spark ended."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of a stream: the position it has reached, and how many changes it had (0 where nobody counts).

    `committed_ms`: when its commits, or the last one of each cut, were made in the source, since 1970. `stages`: the
    seconds that each part of its work took. `ops`: the changes by operation, in the lake alone; `bulk` are
    those of a large run, which Spark folds.
    """

    position: Position
    changes: int
    committed_ms: Sequence[int] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    ops: Mapping[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


class Stream(Protocol):
    """One follower's stream, from its position on."""

    def run(self, stopping: threading.Event) -> None:
        """Follow until `stopping` is set, then finish the current batch. Raises the failure that ends it."""


class MicroBatches(Protocol):
    """A streaming source, and a call for each of its micro-batches."""

    def source(self, spark: SparkSession) -> DataFrame: ...

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a micro-batch; its work may go on after this returns, until `settle` does."""

    def settle(self) -> None:
        """Wait for work that still goes on. Raises its failure."""


class ProblemReporter:
    """Keeps the current problem of one stream. `tell` hears each new one once, and None when it is over."""

    def __init__(self, tell: Callable[[CdcError | None], None] = lambda _: None) -> None:
        self._tell = tell
        self._current: CdcError | None = None

    def report(self, failure: CdcError) -> bool:
        """Note a failure; returns whether it differs from the one before."""
        is_new = str(failure) != str(self._current)
        self._current = failure
        if is_new:
            self._tell(failure)
        return is_new

    def clear(self) -> None:
        """The stream goes on."""
        if self._current is not None:
            self._current = None
            self._tell(None)


@dataclass(frozen=True, slots=True)
class StreamRunner:
    """Runs one stream, and again after a failure, until `stopping` is set.

    `start` builds the stream anew from the follower's position. Without a `reporter`, only UnreachableError is
    retried, for RETRIES_SECONDS. With one, every failure that somebody may repair is retried for ever, and each
    reason is said once. The pause doubles from FIRST_WAIT_SECONDS to LONGEST_WAIT_SECONDS. `on_retry` hears of each.
    """

    name: str
    start: Callable[[], Stream]
    stopping: threading.Event
    say: Callable[[str], None]
    reporter: ProblemReporter | None = None
    on_retry: Callable[[], None] = lambda: None

    def run(self) -> CdcError | None:
        """Run until stopped; returns None then, or the failure that ended it."""
        wait, since = FIRST_WAIT_SECONDS, time.monotonic()
        while not self.stopping.is_set():
            began = time.monotonic()
            failure = self._run_once()
            if failure is None or not self._is_retryable(failure):
                return failure
            # it has run for a while: this is a new problem, and gets all its tries
            if time.monotonic() - began > LONGEST_WAIT_SECONDS:
                wait, since = FIRST_WAIT_SECONDS, time.monotonic()
            if self.reporter is None and time.monotonic() - since > RETRIES_SECONDS:
                return failure
            self.on_retry()
            self._say_retry(failure, wait)
            self.stopping.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        return None

    def _is_retryable(self, failure: CdcError) -> bool:
        if self.reporter is None:
            return isinstance(failure, UnreachableError)
        return not isinstance(failure, FINAL)

    def _say_retry(self, failure: CdcError, wait: float) -> None:
        if self.reporter is None:
            self.say(WarningLine.of(f"{self.name}: {failure}; trying again in {wait:.0f} s", failure))
        elif self.reporter.report(failure):
            self.say(WarningLine.of(f"{self.name}: {failure}; trying again until it works", failure))

    def _run_once(self) -> CdcError | None:
        try:
            self.start().run(self.stopping)
        except CdcError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a stream that ends in silence looks like one that has nothing to do
            return to_cdc_error(f"follower {self.name}", error)
        return None


@dataclass(frozen=True, slots=True)
class SparkStream:
    """A `Stream` driven by Spark's Structured Streaming, which looks for messages every `trigger_seconds`.

    Spark is the clock only: it starts a micro-batch when the transaction topic has messages, and the batch reads them
    by itself. So the job has its place on Spark's page of streams, beside its large runs, copies and views, which are
    jobs of Spark; nothing else depends on it. The checkpoint in the folder `scratch` is deleted at the end, since the
    follower's position decides where to go on.
    """

    spark: SparkSession
    name: str
    trigger_seconds: float
    batches: MicroBatches
    scratch: Path

    def run(self, stopping: threading.Event) -> None:
        # a new one per run: an old checkpoint would go on behind messages that the follower has not applied
        checkpoint = tempfile.mkdtemp(prefix=f"cdc-{self.name}-", dir=self.scratch)
        guarded = _BatchGuard(self.name, self.batches, stopping)
        try:
            self._watch(guarded, self._start_query(guarded, checkpoint), stopping)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
            # last, since it may raise; and no more batches come that could add work
            self.batches.settle()

    def _start_query(self, guarded: "_BatchGuard", checkpoint: str) -> StreamingQuery:
        writer = self.batches.source(self.spark).writeStream.queryName(self.name).foreachBatch(guarded)
        timed = writer.trigger(processingTime=f"{round(self.trigger_seconds * 1000)} milliseconds")
        return timed.option("checkpointLocation", checkpoint).start()

    def _watch(self, guarded: "_BatchGuard", query: StreamingQuery, stopping: threading.Event) -> None:
        error: Exception | None
        try:
            # not awaitTermination, which would not notice `stopping`
            while query.isActive and not stopping.wait(0.2):
                pass
            # stop() interrupts the query's thread and cancels its jobs: so only after the current batch
            guarded.idle.wait()
            query.stop()
            error = query.exception()
        except StreamingQueryException as raised:
            error = raised
        if guarded.failure or error:
            raise guarded.failure or to_cdc_error(f"follower {self.name}", error or RuntimeError())


class _BatchGuard:
    """Keeps the exception of a micro-batch: Spark hands on only its text. `idle` is set while no batch runs."""

    def __init__(self, name: str, batches: MicroBatches, stopping: threading.Event) -> None:
        self._name = name
        self._batches = batches
        self._stopping = stopping
        self.failure: CdcError | None = None
        self.idle = threading.Event()
        self.idle.set()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        # before `stopping` is read: whoever stops the query in between would interrupt this batch
        self.idle.clear()
        try:
            # Spark may begin one more batch before it is stopped: its messages are read again at the next start
            if not self._stopping.is_set():
                self._batches(frame, batch_id)
        except CdcError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = to_cdc_error(f"follower {self._name}", error)
            # the traceback is for Spark's log and for --debug
            self.failure.__cause__ = error
            raise
        finally:
            self.idle.set()
