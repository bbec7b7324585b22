"""Checks the capture while followers run; without a running capture they would wait in silence.

The capture may fail; somebody may pause, stop or delete its connector; or no data moves though everything says it runs.
"""

from collections.abc import Callable, Collection, Mapping

from psycopg import Connection

from cdc.connect.capture import connector
from cdc.connect.source import publication
from cdc.core.errors import CdcError, UnreachableError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.core.text.lines import WarningLine
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.standby_beats import StandbyBeats
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.guard.slot_guard import SlotGuard
from cdc.run.guard.task_restarts import TaskRestarts
from cdc.run.health import patience
from cdc.run.health.capture_health import CaptureHealth
from cdc.run.health.continuity import check_source
from cdc.run.health.gone_topics import TableTopicGoneError
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.result import Failing, Health, Healthy
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.tables import problems
from cdc.run.tables.schema_check import find_changed_tables, find_unlogged_changes, read_followed_tables
from cdc.run.tables.selection import find_new_tables
from cdc.secrets import RenewableSecret


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
        self._health = CaptureHealth(pipeline, CaptureObserver.glance)
        self._restarts, self._guard = TaskRestarts(pipeline, say), SlotGuard(pipeline, say)
        self._last_kind: str | None = None
        self._left_out = set[str]()
        self._beats = StandbyBeats(pipeline)
        self._failure: str | None = None
        self._named = set[TableName]()

    def close(self) -> None:
        self._guard.close()

    def find_fatal(self) -> CdcError | None:
        """Check once; returns the failure that keeps `target` from ever being reached, or None."""
        if self._target is None and self._resyncs.is_here:
            if given_up := self._guard.look():
                return given_up
            if self._guard.has_dropped:
                return None
        found = self._check()
        self._report(found)
        # without a capture or a source, followers still have the rest of the log to read
        if isinstance(found, Healthy) or not found.is_final or self._target is None or self._has_reached(self._target):
            return None
        # a new copy of a table starts the capture, too
        is_repaired = self._resyncs.is_pending or self._is_copying or self._will_copy(found.error)
        return None if is_repaired else found.error

    def _check(self) -> Health:
        # another process that follows the lake may still find the failure, and begin to copy its tables again
        is_beside = not self._resyncs.is_here and self._pipeline.leases.is_held(self._pipeline.lake_name)
        allowed = patience.FOLLOW_BESIDE if is_beside else patience.FOLLOW
        try:
            # the schema first: a changed table may be the reason why the connector failed, and is stopped by it
            self._check_schema()
            return self._check_capture(allowed)
        except CdcError as error:
            return self._health.judge(error, allowed)

    def _check_schema(self) -> None:
        """Request stops of changed tables, and copies of new ones."""
        self._stop(find_unlogged_changes(self._pipeline))
        self._resyncs.request(find_new_tables(self._pipeline))

    def _stop(self, failures: Mapping[TableName, CdcError], copy: Collection[TableName] = ()) -> None:
        self._stops.request({name: failure.what for name, failure in failures.items()}, copy)

    def _check_capture(self, allowed: patience.Patience) -> Health:
        with self._pipeline.open_source() as connection:
            check_source(self._pipeline, connection)
            self._beats.write(connection)
            # somebody may have altered the publication: rows that it leaves out are lost to the log
            publication.check_whole(connection, self._pipeline.settings.source)
            self._report_children(connection)
            gone = self._health.topics.find_tables()
            self._stop(gone, copy=gone.keys())
            found, state = self._health.check(allowed, connection), self._health.connector
            failure = state.failure if state else None
            self._send_password(failure)
            self._stop_failed(failure)
            # a copy of a table starts the connector, and one that is asked for has to come first
            if state and self._resyncs.is_here and not (self._resyncs.is_pending or self._is_copying):
                self._restarts.look(failure, connection)
        return found

    def _will_copy(self, error: CdcError) -> bool:
        """Is this a failure that a later look repairs by a copy?"""
        return isinstance(error, TableTopicGoneError) and self._resyncs.is_here

    @property
    def _is_copying(self) -> bool:
        return self._pipeline.leases.is_held(COPIES)

    def _send_password(self, failure: str | None) -> None:
        """Give a connector that has failed the password that our own logins have learned since it began."""
        source, capture = self._pipeline.settings.source, self._pipeline.settings.connect
        # an override is the user's own
        if (
            failure is None
            or not isinstance(source.password, RenewableSecret)
            or connector.PASSWORD in capture.overrides
        ):
            return
        with self._pipeline.open_connect() as client:
            if connector.send_password(client, capture.connector, source.password.get_secret_value()):
                self._say("capture: has another password, and was started again")

    def _stop_failed(self, failure: str | None) -> None:
        """Stop the tables at which the capture failed.

        Debezium decodes every row by the table's current types, and fails at rows written before a type changed. So the
        changed tables are copied again; the capture starts behind their old rows.
        """
        if failure != self._failure:
            self._failure, self._named = failure, set()
        if failure is None:
            return
        changed = find_changed_tables(self._pipeline, also_widened=False)
        # a failure stands until a copy starts the connector: a table that is copied by then is not stopped again
        named = {} if changed else self._find_named(failure)
        self._stop(changed or {name: why for name, why in named.items() if name not in self._named})
        self._named |= changed.keys() | named.keys()

    def _report_children(self, connection: Connection) -> None:
        """Say once which tables inherit from a followed one, and are not followed: somebody may have made one."""
        sent = publication.read_publication(connection, self._pipeline.settings.source.publication) or ()
        names = sorted(name for name in sent if name in self._pipeline.settings.selection)
        for error in problems.describe_children(self._pipeline, connection, names):
            if str(error) not in self._left_out:
                self._left_out.add(str(error))
                self._say(WarningLine.of(error, error))

    def _find_named(self, failure: str) -> dict[TableName, CdcError]:
        """The tables named in a failure. The capture may have read a schema change that was undone since."""
        names = [table.name for table in read_followed_tables(self._pipeline) if f"{table.name}'" in failure]
        why = f"connector {self._pipeline.settings.connect.connector} failed: {failure}"
        return {name: CdcError(f"the capture failed at it ({why})") for name in names}

    def _has_reached(self, target: Lsn) -> bool:
        """Does the log hold this LSN? True for a log that does not answer: the streams report that."""
        try:
            newest = self._health.observer.newest()[0]
        except UnreachableError:
            return True
        return newest is not None and newest >= target

    def _report(self, found: Health) -> None:
        kind, event = (found.kind, str(found.error)) if isinstance(found, Failing) else (None, "runs again")
        if kind != self._last_kind:
            line = f"capture: {event.removeprefix('capture ')}"
            self._say(WarningLine.of(line, found.error) if isinstance(found, Failing) else line)
        self._last_kind = kind
