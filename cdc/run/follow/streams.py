"""Runs streams, one a follower, each at its own pace; stops them cleanly, and starts a stumbled one again."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.core.errors import CdcError, ConfigurationError, HistoryLostError, RefusedError, UnreachableError
from cdc.run.spark.errors import SparkEndedError, to_cdc_error

RETRIES_SECONDS = 600.0
"""How long a stream is tried again that stumbles each time within LONGEST_WAIT_SECONDS."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 30.0
FINAL = (RefusedError, HistoryLostError, ConfigurationError, SparkEndedError)
"""What no waiting mends: another writer has taken over, what was to be read is gone, this process lacks its Spark."""


class Stream(Protocol):
    """One follower's stream, from its position on."""

    def run(self, stopping: threading.Event) -> None:
        """Follow until `stopping` is set; a batch at hand is brought to its end. Raises what ends it."""


class MicroBatches(Protocol):
    """A streaming source, and what to do with each of its micro-batches."""

    def source(self, spark: SparkSession) -> DataFrame: ...

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a micro-batch in; what it is to cause may go on when this returns, and is over when `settle` does."""

    def settle(self) -> None:
        """Wait for what goes on; raises what ended it."""


class ProblemReporter:
    """What keeps a stream from going on now; `tell` hears of it when it begins, and of None when it is over."""

    def __init__(self, tell: Callable[[CdcError | None], None] = lambda _: None) -> None:
        self._tell = tell
        self._met: CdcError | None = None

    def meet(self, failure: CdcError) -> bool:
        """Take note of a failure; says whether it is another one than before."""
        is_new = str(failure) != str(self._met)
        self._met = failure
        if is_new:
            self._tell(failure)
        return is_new

    def end(self) -> None:
        """All is well again."""
        if self._met is not None:
            self._met = None
            self._tell(None)


@dataclass(frozen=True, slots=True)
class StreamRunner:
    """Keeps one stream going until `stopping` is set.

    `start` builds the stream anew from the follower's position; `say` is told when the stream stumbles. With a
    `trouble` it waits for whatever somebody may undo, however long that takes, and says each reason once.
    """

    name: str
    start: Callable[[], Stream]
    stopping: threading.Event
    say: Callable[[str], None]
    trouble: ProblemReporter | None = None

    def run(self) -> CdcError | None:
        """Run until stopped (None), or until a failure that trying again does not mend (the failure)."""
        wait, since = FIRST_WAIT_SECONDS, time.monotonic()
        while not self.stopping.is_set():
            began = time.monotonic()
            failure = self._once()
            if failure is None or not self._may_pass(failure):
                return failure
            # it has run for a while: this is another trouble, with all its tries before it
            if time.monotonic() - began > LONGEST_WAIT_SECONDS:
                wait, since = FIRST_WAIT_SECONDS, time.monotonic()
            if self.trouble is None and time.monotonic() - since > RETRIES_SECONDS:
                return failure
            self._tell(failure, wait)
            self.stopping.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        return None

    def _may_pass(self, failure: CdcError) -> bool:
        if self.trouble is None:
            return isinstance(failure, UnreachableError)
        return not isinstance(failure, FINAL)

    def _tell(self, failure: CdcError, wait: float) -> None:
        if self.trouble is None:
            self.say(f"{self.name}: {failure}; trying again in {wait:.0f} s")
        elif self.trouble.meet(failure):
            self.say(f"{self.name}: {failure}; trying again until it goes")

    def _once(self) -> CdcError | None:
        try:
            self.start().run(self.stopping)
        except CdcError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a stream that ends in silence looks like one that has nothing to do
            return to_cdc_error(f"follower {self.name}", error)
        return None


@dataclass(frozen=True, slots=True)
class SparkStream:
    """A `Stream` that Spark's Structured Streaming drives, looking for messages every so many seconds.

    Its checkpoint lies in the folder `scratch` for as long as it runs.
    """

    spark: SparkSession
    name: str
    trigger_seconds: float
    batches: MicroBatches
    scratch: Path

    def run(self, stopping: threading.Event) -> None:
        checkpoint = tempfile.mkdtemp(prefix=f"cdc-{self.name}-", dir=self.scratch)
        guarded = _BatchGuard(self.name, self.batches, stopping)
        try:
            self._watch(guarded, self._started(guarded, checkpoint), stopping)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
            # last, since it may raise; and no batch comes any more that could add to what goes on
            self.batches.settle()

    def _started(self, guarded: "_BatchGuard", checkpoint: str) -> StreamingQuery:
        writer = self.batches.source(self.spark).writeStream.queryName(self.name).foreachBatch(guarded)
        timed = writer.trigger(processingTime=f"{round(self.trigger_seconds * 1000)} milliseconds")
        return timed.option("checkpointLocation", checkpoint).start()

    def _watch(self, guarded: "_BatchGuard", query: StreamingQuery, stopping: threading.Event) -> None:
        error: Exception | None
        try:
            # not awaitTermination, which would hear of no `stopping`
            while query.isActive and not stopping.wait(0.2):
                pass
            # stop() interrupts the query's thread and cancels its jobs: so not before the batch at hand has ended
            guarded.idle.wait()
            query.stop()
            error = query.exception()
        except StreamingQueryException as raised:
            error = raised
        if guarded.failure or error:
            raise guarded.failure or to_cdc_error(f"follower {self.name}", error or RuntimeError())


class _BatchGuard:
    """Keeps what a micro-batch raised: Spark hands on only its text."""

    def __init__(self, name: str, batches: MicroBatches, stopping: threading.Event) -> None:
        self._name = name
        self._batches = batches
        self._stopping = stopping
        self.failure: CdcError | None = None
        self.idle = threading.Event()
        self.idle.set()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        # before the question: whoever stops the query in between would interrupt this batch
        self.idle.clear()
        try:
            # Spark may begin another batch before it is stopped: that is left alone, and is new again at the next start
            if not self._stopping.is_set():
                self._batches(frame, batch_id)
        except CdcError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = to_cdc_error(f"follower {self._name}", error)
            self.failure.__cause__ = error
            raise
        finally:
            self.idle.set()
