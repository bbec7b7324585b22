"""Checks the capture while followers run; without a running capture they would wait in silence.

The capture may fail; somebody may pause, stop or delete its connector; or no data moves though everything says it runs.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from psycopg import Connection

from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.capture.observation import CaptureObserver
from cdc.connect.capture.progress import SILENT_SECONDS, CaptureTroubleError, Standstill
from cdc.connect.capture.trouble import find_trouble
from cdc.connect.source import publication
from cdc.core.errors import CdcError, HistoryLostError, UnreachableError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import last_end
from cdc.run.capture.continuity import check_source
from cdc.run.capture.progress_check import REPAIR_SECONDS
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.tables import problems
from cdc.run.tables.schema_check import find_changed_tables, find_unlogged_changes, read_followed_tables
from cdc.run.tables.selection import find_new_tables


class CaptureMonitor:
    """Reports when the capture fails or stands still, since when, and when it runs again.

    `target`: the LSN that somebody waits for, if anybody does. The monitor also requests stops and new copies of tables
    that have changed in the source without a message in the log.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        target: Lsn | None,
        say: Callable[[str], None],
        stops: StopRequests,
        resyncs: ResyncQueue,
    ) -> None:
        self._pipeline = pipeline
        self._stops = stops
        self._resyncs = resyncs
        self._target = target
        self._say = say
        self._look = CaptureObserver(pipeline.settings.source, pipeline.settings.log, pipeline.name)
        self._last_kind: str | None = None
        self._left_out = set[str]()
        self._last_idle: str | None = None
        self._failing_since: float | None = None
        self._silent_since: float | None = None

    def find_fatal(self) -> CdcError | None:
        """Check once; returns the failure that keeps `target` from ever being reached, or None."""
        # the schema first: a changed table may be the reason why the connector failed, and is stopped by it
        failed = self._run_check(self._check_schema) or self._run_check(self._check_capture)
        self._report(failed)
        silent = isinstance(failed, UnreachableError)
        # a server that does not answer may be restarting: fatal only after SILENT_SECONDS
        self._silent_since = (self._silent_since or time.monotonic()) if silent else None
        if failed is None or not self._is_final(failed):
            self._failing_since = None
            return None
        # without a capture or a source, followers still have the rest of the log to read
        if self._target is None or self._has_reached(self._target):
            return None
        # a new copy of a table starts the capture, too
        is_repaired = self._resyncs.is_pending or self._pipeline.leases.is_held(COPIES)
        return None if is_repaired or self._may_be_repaired_elsewhere(failed) else failed

    def _is_final(self, failed: CdcError) -> bool:
        """Will this failure not pass by itself, as far as can be known?"""
        if self._silent_since is not None:
            return time.monotonic() - self._silent_since > SILENT_SECONDS
        return not isinstance(failed, CaptureTroubleError) or failed.is_final

    def _may_be_repaired_elsewhere(self, failed: CdcError) -> bool:
        """May another process, which follows the lake, still find the failure and begin to copy its tables again?"""
        self._failing_since = self._failing_since or time.monotonic()
        is_early = time.monotonic() - self._failing_since < REPAIR_SECONDS
        # lost history is repaired by a recapture only, never by a copy of some tables
        is_lost = isinstance(failed, HistoryLostError)
        may_be = not self._resyncs.is_here and not is_lost and is_early
        return may_be and self._pipeline.leases.is_held(self._pipeline.lake_name)

    def _check_schema(self) -> None:
        """Request stops of changed tables, and copies of new ones."""
        self._stop(find_unlogged_changes(self._pipeline))
        self._resyncs.request(find_new_tables(self._pipeline))

    def _stop(self, failures: Mapping[TableName, CdcError]) -> None:
        self._stops.request({name: failure.what for name, failure in failures.items()})

    def _check_capture(self) -> None:
        src = self._pipeline.settings.source
        with self._pipeline.open_source() as connection:
            check_source(self._pipeline, connection)
            # somebody may have altered the publication: rows that it leaves out are lost to the log
            publication.check_whole(connection, src.publication)
            self._report_children(connection)
            still: Standstill | None = None
            # the streams report a log that does not answer
            with suppress(UnreachableError):
                still = self._look.glance(connection)
            try:
                with self._pipeline.open_connect() as client:
                    state = look_up(client, self._pipeline.settings.connect.connector)
            except UnreachableError as silent:
                raise still.error(silent) if still else silent from None
            self._check_connector(connection, state)
        if still:
            raise still.error(state)

    def _report_children(self, connection: Connection) -> None:
        """Say once which tables inherit from a followed one, and are not followed: somebody may have made one."""
        sent = publication.read_publication(connection, self._pipeline.settings.source.publication) or ()
        names = sorted(name for name in sent if name in self._pipeline.settings.selection)
        for error in problems.describe_children(self._pipeline, connection, names):
            if str(error) not in self._left_out:
                self._left_out.add(str(error))
                self._say(str(error))

    def _check_connector(self, connection: Connection, state: ConnectorState) -> None:
        failed, before = find_trouble(connection, self._pipeline.settings.source, state), self._last_idle
        self._last_idle = str(failed) if failed and state.failure is None else None
        if failed is None:
            return
        if state.failure is not None:
            # Debezium decodes every row by the table's current types, and fails at rows written before a type changed.
            # So the changed tables are copied again; the capture starts behind their old rows.
            self._stop(find_changed_tables(self._pipeline, also_widened=False) or self._find_named(failed))
        # a bootstrap stops the connector for a moment: only a state that two checks see is an error
        if state.failure is not None or before == self._last_idle:
            raise self._look.since(connection, failed)

    def _find_named(self, failed: CdcError) -> dict[TableName, CdcError]:
        """The tables named in a failure. The capture may have read a schema change that was undone since."""
        names = [table.name for table in read_followed_tables(self._pipeline) if f"{table.name}'" in failed.what]
        return {name: CdcError(f"the capture failed at it ({failed.what})") for name in names}

    @staticmethod
    def _run_check(check: Callable[[], None]) -> CdcError | None:
        try:
            check()
        except CdcError as error:
            return error
        return None

    def _has_reached(self, target: Lsn) -> bool:
        """Does the log hold this LSN? True for a log that does not answer: the streams report that."""
        try:
            with self._pipeline.open_log() as reader:
                end = last_end(reader, transaction_topic(self._pipeline.settings.log.prefix))
        except UnreachableError:
            return True
        return end is not None and end.lsn >= target

    def _report(self, failed: CdcError | None) -> None:
        kind = failed.kind if isinstance(failed, CaptureTroubleError) else str(failed) if failed else None
        if kind != self._last_kind:
            self._say(f"capture: {str(failed).removeprefix('capture ') if failed else 'runs again'}")
        self._last_kind = kind
