"""Does the capture run, does it move: one check for all who depend on it. `continuity.py` asks whether it is whole."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

from psycopg import Connection

from cdc.config.settings import CAPTURE
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.source.access.connection import read_clock
from cdc.core.errors import CdcError, HistoryLostError, PausedError, UnreachableError
from cdc.run.health.continuity import check_slot
from cdc.run.health.gone_topics import GoneTopics
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.patience import Patience
from cdc.run.health.result import Failing, Health, Healthy, fail_since
from cdc.run.health.standstill import START_ANEW, Standstill
from cdc.run.health.trouble import MEND, PASS_OVER, describe_trouble, find_trouble
from cdc.run.health.upgrade import find_new_cluster
from cdc.run.pipeline import Pipeline

Look = Callable[[CaptureObserver, Connection], Standstill | None]
"""How a caller looks whether data moves: `glance` now and then, `look` while it waits, `observe` once and for sure."""

FindState = Callable[[], ConnectorState]
"""Finds the connector's state; raises CdcError when Kafka Connect does not tell it."""


class CaptureHealth:
    """The health of one pipeline's capture, for one caller, who checks again and again.

    After a check, either `connector` is its state, or `silent` is why Kafka Connect did not tell it. `is_behind_start`:
    the caller has just started the connector, so no remedy sends there. `find_state`: of who has asked Kafka Connect
    already. `asks_slot`: of a failed connector, whether somebody has moved its slot.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        look: Look = CaptureObserver.look,
        *,
        is_behind_start: bool = False,
        find_state: FindState | None = None,
        asks_slot: bool = True,
    ) -> None:
        self.connector: ConnectorState | None = None
        self.silent: CdcError | None = None
        self._pipeline = pipeline
        self._look = look
        self._is_behind_start = is_behind_start
        self._find_state = find_state or partial(find_connector, pipeline)
        self._asks_slot = asks_slot
        self.observer, self.topics = CaptureObserver(pipeline), GoneTopics(pipeline)
        self._sign: str | None = None
        self._began = 0.0

    def check(self, patience: Patience, connection: Connection | None = None) -> Health:
        """Check the connector, and if nothing is wrong with that, whether data moves.

        `connection` is to the source, in autocommit; without one, a session is opened where it is needed. Raises
        PreconditionError when the role may not write a heartbeat.
        """
        found = self.check_connector(patience, connection)
        if isinstance(found, Failing) and not self.silent:
            return found
        still = None
        # who reads the log reports one that does not answer
        with suppress(UnreachableError), self._open_source(connection) as opened:
            still = self._look(self.observer, opened)
        otherwise = f"see Kafka Connect's log; {PASS_OVER}" if self._is_behind_start else START_ANEW
        return still.to_failing(self.connector, self.silent, patience, otherwise) if still else found

    def check_connector(
        self, patience: Patience, connection: Connection | None = None, *, explains: bool = True
    ) -> Health:
        """Check the connector alone. A Kafka Connect that does not answer fails: the connector may run all the same.

        `explains`: what source and log know of it is asked, too.
        """
        self.connector = self.silent = None
        try:
            self.connector = self._find_state()
        except CdcError as silent:
            self.silent = silent
            return self.judge(silent, patience)
        trouble = describe_trouble(self.connector)
        if self.connector.failure is None and self.connector.idle is not None:
            # of a pause by our own verb it is known since when, and whose it is
            trouble = self._pipeline.requests.read_pause(CAPTURE) or trouble
        if trouble is None:
            return self._check_topics(patience)
        if self.is_idle and not self._has_lasted("idle", patience.idle):
            return Healthy()
        if not explains:
            return Failing(trouble, None, self.is_idle or self._is_final(trouble, patience), str(trouble))
        return self._explain(self.connector, trouble, patience, connection)

    def _check_topics(self, patience: Patience) -> Health:
        """Check that a connector that runs has all of its topics; who starts one has just made them."""
        if self._is_behind_start or (gone := self.topics.find_error()) is None:
            self._sign = None
            return Healthy()
        return Failing(gone, None, self._is_final(gone, patience), str(gone), is_still=True)

    def judge(self, error: CdcError, patience: Patience) -> Failing:
        """Make the result of a check that ended with this error."""
        return Failing(error, None, self._is_final(error, patience), str(error))

    @property
    def is_idle(self) -> bool:
        """Was the connector paused, stopped or not there in the last check, if only for a moment?"""
        state = self.connector
        return state is not None and state.failure is None and describe_trouble(state) is not None

    def _explain(
        self, state: ConnectorState, trouble: CdcError, patience: Patience, connection: Connection | None
    ) -> Failing:
        """Make the result of a connector's error, with what source and log know of it, if they answer."""
        newest_at: float | None = None
        now = 0.0
        otherwise = PASS_OVER if self._is_behind_start else MEND
        with suppress(CdcError), self._open_source(connection) as opened:
            if not isinstance(trouble, PausedError):
                trouble = find_trouble(opened, self._pipeline.settings.source, state, otherwise) or trouble
            if self._asks_slot and state.failure is not None and not isinstance(trouble, HistoryLostError):
                trouble = self._find_moved_slot(opened, trouble) or trouble
            if not self._is_behind_start:
                newest_at, now = self.observer.newest()[1], read_clock(opened)
        is_final = self.is_idle or self._is_final(trouble, patience)
        return fail_since(trouble, newest_at, now, is_final=is_final)

    def _find_moved_slot(self, connection: Connection, trouble: CdcError) -> CdcError | None:
        """The same failure, if the slot was moved: Debezium may refuse to go on where its offset is behind the slot."""
        position = self._pipeline.lake_follower.position()
        try:
            if position is not None:
                check_slot(self._pipeline, connection, position)
        except HistoryLostError as lost:
            return self._find_upgrade() or HistoryLostError(f"{trouble.what}; {lost.what}", lost.remedy)
        return None

    def _find_upgrade(self) -> CdcError | None:
        """What pg_upgrade has done to the source, which also moves the slot; None if nothing is known of it."""
        try:
            upgrade = find_new_cluster(self._pipeline)
        except CdcError:
            return None
        return upgrade.to_error() if upgrade else None

    def _open_source(self, connection: Connection | None) -> AbstractContextManager[Connection]:
        return self._pipeline.open_source() if connection is None else nullcontext(connection)

    def _is_final(self, error: CdcError, patience: Patience) -> bool:
        if isinstance(error, UnreachableError):
            return self._has_lasted("silent", patience.silent)
        # lost history is repaired by a recapture only, never by a copy of some tables
        return isinstance(error, HistoryLostError) or self._has_lasted("failed", patience.failed)

    def _has_lasted(self, sign: str, seconds: float) -> bool:
        """Have all checks for so long shown this sign?"""
        if sign != self._sign:
            self._sign, self._began = sign, time.monotonic()
        return time.monotonic() - self._began >= seconds


def find_connector(pipeline: Pipeline) -> ConnectorState:
    """Ask Kafka Connect for the connector's state. Raises CdcError."""
    with pipeline.open_connect() as client:
        return look_up(client, pipeline.settings.connect.connector)
