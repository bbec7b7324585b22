"""Starts a task of the connector again that failed for a passing reason, with growing pauses; Kafka Connect never does.

Whether a reason passes is asked, and not read in a failure's text: the source, its slot, publication and rights, and
Kafka. What they have something against, no start helps; while one does not answer, a start would fail for that. What
nobody has anything against is tried so often, and then left to somebody.
"""

import random
import time
from collections.abc import Callable
from typing import Final

from psycopg import Connection

from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector
from cdc.connect.source.access.connection import try_replication
from cdc.connect.source.obstacles import find_obstacle
from cdc.core.counters import CONNECTOR_STARTS, COUNTERS
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.text.lines import WarningLine
from cdc.core.text.plural import format_count
from cdc.log.clients.knock import check_reachable
from cdc.run.health.trouble import MEND
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import RestartReport, open_reports

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
_JITTER: Final = 0.25
"""Connectors that failed together for one reason do not come back together."""
CALM_SECONDS: Final = 600.0
"""A task that has run for so long has all its starts again."""


def pause_seconds(starts: int) -> float:
    """The pause before the next start, behind so many of them."""
    longest: float = min(FIRST_PAUSE_SECONDS * 2**starts, LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret


class TaskRestarts:
    """The starts of one pipeline's connector. `clock`: in seconds, which nobody sets."""

    def __init__(
        self, pipeline: Pipeline, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline = pipeline
        self._say = say
        self._clock = clock
        self._most = pipeline.settings.connect.restarts
        self._is_first = True
        self._starts = 0
        self._began_at = 0.0
        self._due_at: float | None = None
        self._told = ""

    def look(self, failure: str | None, connection: Connection) -> None:
        """Start a failed task again when that is due, and may help. `failure`: why it failed; None if it has not.

        `connection` is to the source, in autocommit.
        """
        if self._is_first:
            # of an earlier process
            self._is_first = False
            open_reports(self._pipeline).remove(RestartReport.NAME)
        if failure is None:
            self._note_calm()
            return
        if self._most == 0:
            return
        if pause := self._pipeline.requests.read_pause(CAPTURE):
            self._tell(pause, failure)
            return
        if self._due_at is None:
            self._due_at = self._clock() + pause_seconds(self._starts)
        if self._clock() < self._due_at:
            return
        if why := self._find_reason(failure, connection):
            self._tell(why, failure)
        else:
            self._start(failure)

    def _note_calm(self) -> None:
        is_calm = self._starts > 0 and self._clock() - self._began_at >= CALM_SECONDS
        # what held a start back is over, too: somebody else has started the task
        if is_calm or self._told:
            open_reports(self._pipeline).remove(RestartReport.NAME)
        self._due_at, self._told, self._starts = None, "", 0 if is_calm else self._starts

    def _find_reason(self, failure: str, connection: Connection) -> CdcError | None:
        """Why a start would not help now; None if nothing is known against it."""
        source, capture = self._pipeline.settings.source, self._pipeline.settings.connect
        try:
            check_reachable(self._pipeline.settings.log)
        except UnreachableError as silent:
            return silent
        if found := find_obstacle(connection, source) or try_replication(source.decoding):
            return found
        if self._starts < self._most:
            return None
        what = f"connector {capture.connector} failed again after each of {format_count(self._starts, 'start')}"
        return PreconditionError(f"{what}: {failure}", MEND)

    def _start(self, failure: str) -> None:
        with self._pipeline.open_connect() as client:
            connector.restart(client, self._pipeline.settings.connect.connector)
        self._starts += 1
        self._began_at, self._due_at, self._told = self._clock(), None, ""
        COUNTERS.add(CONNECTOR_STARTS)
        named = f"its task was started again, {self._starts} of {self._most} times"
        self._say(WarningLine(f"capture: {named}; it had failed: {failure}"))
        self._report(failure)

    def _tell(self, why: CdcError, failure: str) -> None:
        """Say once that the task is not started, as long as that is so."""
        if self._told != str(why):
            self._told = str(why)
            self._say(WarningLine.of(f"capture: its task is not started again: {why}", why))
            self._report(failure, why)

    def _report(self, failure: str, why: CdcError | None = None) -> None:
        report = RestartReport(
            at=time.time(), starts=self._starts, most=self._most, failure=failure, held_back=str(why) if why else ""
        )
        open_reports(self._pipeline).write(RestartReport.NAME, report)
