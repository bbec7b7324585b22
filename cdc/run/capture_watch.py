"""Looks at the capture beside the followers, which would wait in silence for what does not come.

It fails, somebody pauses, stops or deletes the connector, or it stands still while all that is asked says that it runs.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg
from psycopg import Connection

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, UnreachableError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import transaction_topic
from cdc.log.transactions import last_end
from cdc.run.capture_check import MENDING_SECONDS
from cdc.run.continuity import check_source
from cdc.run.lease import attended
from cdc.run.renewal import Renewal
from cdc.run.schema_check import changed, followed, unseen
from cdc.run.selected import came
from cdc.run.stops import Stops
from connect import publication, source
from connect.capture_look import CaptureLook
from connect.capture_progress import SILENT_SECONDS, CaptureTrouble, Standstill
from connect.connector_state import ConnectorState, look_up, trouble
from connect.rest import ConnectClient


class CaptureWatch:
    """Says when the capture fails or stands still, since when, and when it runs again.

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
        self._look = CaptureLook(settings.source, settings.log, settings.pipeline.name)
        self._said: str | None = None
        self._idle: str | None = None
        self._failing_since: float | None = None
        self._silent_since: float | None = None

    def hopeless(self) -> CdcError | None:
        """Look once; the failure that followers must not, or need not, go on with, if there is one."""
        failed = self._asked(self._check_schema) or self._asked(self._check_capture)
        self._tell(failed)
        silent = isinstance(failed, UnreachableError)
        self._silent_since = (self._silent_since or time.monotonic()) if silent else None
        if failed is None or not self._is_final(failed):
            self._failing_since = None
            return None
        # without a capture, or a source that lets us in, the log can still be followed as far as it goes
        if self._target is None or self._reached(self._target):
            return None
        # what is copied again starts it, too
        is_mended = self._renewal.is_pending or attended(self._settings, "bootstrap")
        return None if is_mended or self._may_be_mended_elsewhere(failed) else failed

    def _is_final(self, failed: CdcError) -> bool:
        """Does nothing say that this passes by itself?"""
        if self._silent_since is not None:
            return time.monotonic() - self._silent_since > SILENT_SECONDS
        return not isinstance(failed, CaptureTrouble) or failed.is_final

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
        src = self._settings.source
        with source.connected(src) as connection:
            check_source(self._settings, connection)
            publication.check_whole(connection, src.publication)
            still = self._standstill(connection)
            try:
                found = self._connector()
            except UnreachableError as silent:
                raise still.error(silent) if still else silent from None
            self._check_connector(connection, found)
        if still:
            raise still.error(found)

    def _standstill(self, connection: Connection) -> Standstill | None:
        # a log that does not answer is told by who follows it
        with suppress(UnreachableError):
            return self._look.glance(connection)
        return None

    def _connector(self) -> ConnectorState:
        capture = self._settings.connect
        with ConnectClient(capture.url) as client:
            return look_up(client, capture.connector)

    def _check_connector(self, connection: Connection, found: ConnectorState) -> None:
        failed, before = trouble(found), self._idle
        self._idle = str(failed) if failed and found.failure is None else None
        if failed is None:
            return
        if found.failure is not None:
            # Debezium reads a row by the types that its table has now, and fails at one from before another type: the
            # tables that have changed are copied again, and the capture starts without their rows until then
            self._stop(changed(self._settings, also_widened=False) or self._told_of(failed))
        # a bootstrap stops the connector for a moment: what two looks find lasts
        if found.failure is not None or before == self._idle:
            raise self._look.since(connection, failed)

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

    def _tell(self, trouble: CdcError | None) -> None:
        kind = trouble.kind if isinstance(trouble, CaptureTrouble) else str(trouble) if trouble else None
        if kind != self._said:
            self._say(f"capture: {str(trouble).removeprefix('capture ') if trouble else 'runs again'}")
        self._said = kind
