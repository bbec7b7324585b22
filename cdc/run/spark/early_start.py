"""Starts a pipeline's Spark while its verb still imports and checks: each of them keeps one core busy for seconds."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Final

from pyspark.sql import SparkSession

from cdc.run.spark.java_process import list_begun

_LOOK_SECONDS: Final = 0.1


class HeldLines:
    """Lines of a start, which nobody wants to read before the session is asked for: a refusal is one line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._held: list[str] | None = []
        self._lock = Lock()

    def __call__(self, line: str) -> None:
        with self._lock:
            if self._held is None:
                self._say(line)
            else:
                self._held.append(line)

    def release(self) -> None:
        """Say what is held, and from now on each line at once."""
        with self._lock:
            for line in self._held or ():
                self._say(line)
            self._held = None


class EarlyStart:
    """A session that `build` makes in a thread. Called, it returns the session, or raises what `build` raised.

    `lines`: those of `build`, held until then.
    """

    def __init__(self, build: Callable[[], SparkSession], lines: HeldLines) -> None:
        self._lines = lines
        # those of verbs before this one in the same process go on
        self._earlier = list_begun()
        self._thread = ThreadPoolExecutor(1, "early start")
        self._session: Future[SparkSession] = self._thread.submit(build)
        self._is_taken = False

    def __call__(self) -> SparkSession:
        self._lines.release()
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
