"""Runs `cdc follow` in a thread of the demo's own process."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from cdc.core.errors import CdcError, PreconditionError
from cdc.run.follow.follow import follow, mark_source_end
from cdc.run.follow.process_streams import Say
from cdc.run.pipeline import Pipeline

POLL_SECONDS = 0.2


class FollowThread:
    """Follows as long as the context lasts. The end raises a failure that stopped it early."""

    def __init__(self, pipeline: Pipeline, names: Sequence[str], say: Say) -> None:
        # the streams, in their threads, have parts of their own
        self._pipeline, streams = pipeline, pipeline.reopened()
        fed = {name: follower.position for name, follower in pipeline.fed.items()}
        every = {pipeline.lake_name: pipeline.lake_follower.position, **fed}
        self._positions = {name: every[name] for name in names}
        self._stopping = threading.Event()
        # a pool of one: its Future keeps the error, which a bare thread would only print
        self._thread = ThreadPoolExecutor(1, "follow")
        self._run = lambda: follow(streams, names, say, until_caught_up=False, stopping=self._stopping)
        self._running: Future[None] | None = None

    def __enter__(self) -> "FollowThread":
        self._running = self._thread.submit(self._run)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopping.set()
        # waits for the end: a batch that is begun is finished
        self._thread.shutdown()
        failure = self._failure()
        # an error of the block itself came first, and is not to be hidden
        if failure and error is None:
            raise failure

    def catch_up(self, patience: float) -> dict[str, float]:
        """Wait until every follower has the source's present data; returns the seconds that each took.

        Raises the failure that stopped the followers, or PreconditionError after `patience` seconds.
        """
        # also on an idle source: the mark commits above everything before it
        target, began = mark_source_end(self._pipeline), time.monotonic()
        took: dict[str, float] = {}
        while len(took) < len(self._positions):
            for name in self._positions.keys() - took.keys():
                position = self._positions[name]()
                if position is not None and position.lsn >= target:
                    took[name] = round(time.monotonic() - began, 3)
            self._check(patience - (time.monotonic() - began), self._positions.keys() - took.keys())
        # in the order of the followers, not of their arrival
        return {name: took[name] for name in self._positions}

    def _check(self, seconds_left: float, behind: "set[str]") -> None:
        # first: whoever has ended does not catch up, however long one waits
        if behind and self._running is not None and self._running.done():
            raise self._failure() or PreconditionError("the followers ended early", "run it again")
        if behind and seconds_left <= 0:
            raise PreconditionError(
                f"{', '.join(sorted(behind))} did not catch up in time", "see `cdc status`; a busy machine is slow"
            )
        if behind:
            time.sleep(POLL_SECONDS)

    def _failure(self) -> CdcError | None:
        error = self._running.exception() if self._running is not None and self._running.done() else None
        if error is None or isinstance(error, CdcError):
            return error
        raise error
