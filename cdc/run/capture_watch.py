"""Looks at the capture beside the followers, which would wait in silence for what a failed connector does not send."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import psycopg

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, UnreachableError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import transaction_topic
from cdc.log.transactions import last_end
from cdc.run.continuity import check_source
from cdc.run.pipeline import attended
from cdc.run.renewal import Renewal
from cdc.run.schema_check import changed, followed, unseen
from cdc.run.selected import came
from cdc.run.stops import Stops
from connect import publication, source
from connect.connector import broken
from connect.rest import ConnectClient

MENDING_SECONDS: Final = 60.0
"""How long whoever follows the lake in another process may take to begin a copy that starts the capture again."""


class CaptureWatch:
    """Says when the capture fails, and when it runs again.

    With a `target`, the LSN that somebody waits for, it also tells whether that will ever come.
    """

    def __init__(
        self,
        settings: PipelineSettings,
        target: Lsn | None,
        say: Callable[[str], None],
        stops: Stops,
        renewal: Renewal,
    ) -> None:
        self._settings = settings
        self._stops = stops
        self._renewal = renewal
        self._target = target
        self._say = say
        self._said: str | None = None
        self._failing_since: float | None = None

    def hopeless(self) -> CdcError | None:
        """Look once; the failure that followers must not, or need not, go on with, if there is one."""
        failed = self._asked(self._check_schema) or self._asked(self._check_capture)
        self._tell(str(failed) if failed else None)
        if failed is None or isinstance(failed, UnreachableError):
            self._failing_since = None
            return None
        # without a capture, or a source that lets us in, the log can still be followed as far as it goes
        if self._target is None or self._reached(self._target):
            return None
        # what is copied again starts it, too
        return None if self._renewal.is_pending or self._may_be_mended_elsewhere(failed) else failed

    def _may_be_mended_elsewhere(self, failed: CdcError) -> bool:
        """May another process, which follows the lake, find out that it has to copy tables again, and begin to?"""
        self._failing_since = self._failing_since or time.monotonic()
        is_early = time.monotonic() - self._failing_since < MENDING_SECONDS
        is_lost = isinstance(failed, HistoryLostError)
        elsewhere = not self._renewal.here and not is_lost and is_early
        return elsewhere and attended(self._settings, self._settings.delta[0])

    def _check_schema(self) -> None:
        """Have tables stopped that have changed, and those copied that came."""
        self._stop(unseen(self._settings))
        self._renewal.want(came(self._settings))

    def _stop(self, found: Mapping[TableName, CdcError]) -> None:
        self._stops.put({name: failure.what for name, failure in found.items()})

    def _check_capture(self) -> None:
        src, capture = self._settings.source, self._settings.connect
        with source.connected(src) as connection:
            check_source(self._settings, connection)
            publication.check_whole(connection, src.publication)
        with ConnectClient(capture.url) as client:
            failed = broken(client, capture.connector)
        if failed:
            # Debezium reads a row by the types that its table has now, and fails at one from before another type: the
            # tables that have changed are copied again, and the capture starts without their rows until then
            self._stop(changed(self._settings, also_widened=False) or self._told_of(failed))
            raise failed

    def _told_of(self, failed: CdcError) -> dict[TableName, CdcError]:
        """The tables that a failure names: the capture may have met what has been undone since."""
        names = [table.name for table in followed(self._settings) if f"{table.name}'" in failed.what]
        return {name: CdcError(f"the capture failed at it ({failed.what})") for name in names}

    @staticmethod
    def _asked(check: Callable[[], None]) -> CdcError | None:
        try:
            check()
        except CdcError as error:
            return error
        except psycopg.Error as error:
            return UnreachableError(str(error).strip().partition("\n")[0], "see `cdc status`")
        return None

    def _reached(self, target: Lsn) -> bool:
        """A log that does not answer may have: whoever waits for it says so."""
        try:
            with Reader(self._settings.log) as reader:
                end = last_end(reader, transaction_topic(self._settings.log.prefix))
        except UnreachableError:
            return True
        return end is not None and end.lsn >= target

    def _tell(self, trouble: str | None) -> None:
        if trouble != self._said:
            self._say(f"capture: {trouble or 'runs again'}")
        self._said = trouble
