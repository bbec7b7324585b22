"""Starts a pipeline's Spark while its verb still imports and checks: each of them keeps one core busy for seconds."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from pyspark.sql import SparkSession

from cdc.run.spark.java_process import list_begun

_LOOK_SECONDS: Final = 0.1


class EarlyStart:
    """A session that `build` makes in a thread. Called, it returns the session, or raises what `build` raised."""

    def __init__(self, build: Callable[[], SparkSession]) -> None:
        # those of verbs before this one in the same process go on
        self._earlier = list_begun()
        self._thread = ThreadPoolExecutor(1, "early start")
        self._session: Future[SparkSession] = self._thread.submit(build)
        self._is_taken = False

    def __call__(self) -> SparkSession:
        session = self._session.result()
        # not before: one who is interrupted while waiting lets it be ended
        self._is_taken = True
        return session

    def close(self) -> None:
        """End a Java that nobody has asked for, so that a refused verb ends at once."""
        if not self._is_taken:
            # again and again: a thread that had not come to its Java may start it behind the first look
            while not wait([self._session], _LOOK_SECONDS).done:
                self._end_java()
            self._end_java()
        self._thread.shutdown()

    def _end_java(self) -> None:
        for start in list_begun():
            if start not in self._earlier:
                start.end()
