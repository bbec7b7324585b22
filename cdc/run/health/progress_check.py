"""Checks that the capture runs, for a caller that waits for data: called now and then during the wait."""

import time
from contextlib import suppress
from typing import Final

from psycopg import Connection

from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.source import publication
from cdc.core.errors import CdcError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.run.health.continuity import check_source
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.trouble import find_trouble
from cdc.run.pipeline import Pipeline

LOOK_SECONDS: Final = 3.0
"""Pause between two checks; most waits end before the first one."""
REPAIR_SECONDS: Final = 60.0
"""How long a `cdc follow` on this machine may take to stop the table at which the connector failed, or to begin a copy,
which starts the capture again."""
STOPPED_SECONDS: Final = 15.0
"""How long the connector may be stopped while its configuration is changed: some seconds, on a busy machine."""
POLL_SECONDS: Final = 0.5


class CaptureCheck:
    """Raises CaptureTroubleError when the capture cannot go on by itself. `connection` is to the source."""

    def __init__(self, pipeline: Pipeline, connection: Connection) -> None:
        self._pipeline = pipeline
        self._connection = connection
        self._look = CaptureObserver(pipeline.settings.source, pipeline.settings.log, pipeline.name)
        self._next_look = Deadline(LOOK_SECONDS)

    def check_connector(self) -> None:
        """Raise CaptureTroubleError for a connector that failed, or that somebody paused, stopped or deleted.

        Before that, raises what the source has against going on, as all verbs do: a slot or a publication that is lost,
        or a publication that leaves changes out.

        Not for a Kafka Connect that does not answer: the connector may run all the same. While somebody follows the
        lake, waits REPAIR_SECONDS for a failed connector and STOPPED_SECONDS for another.
        """
        check_source(self._pipeline, self._connection)
        publication.check_whole(self._connection, self._pipeline.settings.source.publication)
        began = time.monotonic()
        while (state := self._read_connector()[0]) and (failed := self._find_trouble(state)):
            if not self._may_be_repaired(state, time.monotonic() - began):
                raise self._look.since(self._connection, failed)
            time.sleep(POLL_SECONDS)

    def _find_trouble(self, state: ConnectorState) -> CdcError | None:
        return find_trouble(self._connection, self._pipeline.settings.source, state)

    def _may_be_repaired(self, state: ConnectorState, seconds: float) -> bool:
        patience = REPAIR_SECONDS if state.failure else STOPPED_SECONDS
        return seconds < patience and self._pipeline.leases.is_held(self._pipeline.lake_name)

    def __call__(self) -> None:
        """Check the connector, and that data moves, if the last check is LOOK_SECONDS ago."""
        if not self._next_look.is_past:
            return
        self.check_connector()
        # the reader of the log reports one that does not answer
        with suppress(UnreachableError):
            if still := self._look.look(self._connection):
                raise still.error(*self._read_connector())
        # after the look, which may take seconds itself
        self._next_look = Deadline(LOOK_SECONDS)

    def _read_connector(self) -> tuple[ConnectorState | None, CdcError | None]:
        """The connector's state, or why Kafka Connect did not tell it."""
        try:
            with self._pipeline.open_connect() as client:
                return look_up(client, self._pipeline.settings.connect.connector), None
        except CdcError as silent:
            return None, silent
