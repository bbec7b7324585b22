"""Heartbeats for those who wait until a token is shown: as few as all waits of this process need."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Final

from cdc.connect.source.access import connection as source
from cdc.connect.source.heartbeat import write_heartbeat
from cdc.core.errors import UnreachableError
from cdc.core.position import Lsn
from cdc.run.pipeline import Pipeline

PAUSE_SECONDS: Final = 0.25
"""Between two tries, whoever waits for them."""
LASTING_SECONDS: Final = 5.0
"""After which a heartbeat counts no more: the source may have lost it since, as one that was put back has."""


class WaitBeats:
    """Writes a heartbeat behind a token where there is none yet: positions are those of commits, and there may be none
    behind the last one.

    `write` returns an LSN below the heartbeat's, None where none could be written.
    """

    def __init__(self, write: Callable[[], Lsn | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._writing = Lock()
        self._tried_at = float("-inf")
        self._covered: Lsn | None = None

    def offer(self, wanted: Lsn) -> bool:
        """Write a heartbeat, unless one of the last seconds is behind this LSN; returns whether there is one now.

        Writes none while another thread does, or soon after the last try: the next call may.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            return self._is_covered(wanted) or self._try_write()
        finally:
            self._writing.release()

    def _is_covered(self, wanted: Lsn) -> bool:
        is_recent = self._clock() - self._tried_at < LASTING_SECONDS
        return is_recent and self._covered is not None and wanted <= self._covered

    def _try_write(self) -> bool:
        if self._clock() - self._tried_at < PAUSE_SECONDS:
            return False
        self._tried_at = self._clock()
        self._covered = self._write()
        # also one below the LSN, which the source has not reached itself: another heartbeat does not help
        return self._covered is not None


_OF_SOURCES: Final[dict[tuple[str, int, str, str], WaitBeats]] = {}


def beats_of(pipeline: Pipeline) -> WaitBeats:
    """The heartbeats of this pipeline that this process writes."""
    src = pipeline.settings.source
    key = (src.host, src.port, src.dbname, pipeline.name)
    return _OF_SOURCES.setdefault(key, WaitBeats(partial(_write_beat, pipeline.reopened())))


def _write_beat(pipeline: Pipeline) -> Lsn | None:
    # a row that is locked, too, is an error of this kind
    with suppress(UnreachableError), pipeline.open_source() as held:
        before = source.inserted_lsn(held)
        # somebody who holds the row writes a heartbeat that commits behind the token, too
        write_heartbeat(held, pipeline.settings.source, pipeline.name, "token", "1ms")
        return before
    return None
