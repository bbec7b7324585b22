"""Does the capture run, for somebody who waits for what it brings? Asked now and then while that is waited for."""

import time
from contextlib import suppress
from typing import Final

from psycopg import Connection

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, UnreachableError
from cdc.run.lease import attended
from connect.capture_look import CaptureLook
from connect.connector_state import ConnectorState, look_up, trouble
from connect.rest import ConnectClient

LOOK_SECONDS: Final = 3.0
"""Between two looks: most waits are over before the first."""
MENDING_SECONDS: Final = 60.0
"""How long whoever follows the lake here may take to stop the table at which the connector failed, or to begin a copy
that starts the capture again."""
STOPPED_SECONDS: Final = 15.0
"""How long the connector may be stopped while its configuration is changed: some seconds, on a busy machine."""
POLL_SECONDS: Final = 0.5


class CaptureCheck:
    """Raises CaptureTrouble as soon as what is waited for will not come by itself; `connection` is to the source."""

    def __init__(self, settings: PipelineSettings, connection: Connection) -> None:
        self._settings = settings
        self._connection = connection
        self._look = CaptureLook(settings.source, settings.log, settings.pipeline.name)
        self._next_look = time.monotonic() + LOOK_SECONDS

    def check_connector(self) -> None:
        """Raise for a connector that failed, or that somebody paused, stopped or deleted, once nobody mends it.

        A Kafka Connect that does not answer may run it all the same.
        """
        began = time.monotonic()
        while (found := self._state()[0]) and (failed := trouble(found)):
            if not self._may_be_mended(found, time.monotonic() - began):
                raise self._look.since(self._connection, failed)
            time.sleep(POLL_SECONDS)

    def _may_be_mended(self, found: ConnectorState, seconds: float) -> bool:
        """Who follows the lake here mends a failed capture, and stops the connector for a moment to copy tables."""
        patience = MENDING_SECONDS if found.failure else STOPPED_SECONDS
        return seconds < patience and attended(self._settings, self._settings.delta[0])

    def __call__(self) -> None:
        """Look, if it is time to: at the connector, and at whether the capture moves."""
        if time.monotonic() < self._next_look:
            return
        self.check_connector()
        # a log that does not answer is told by who reads it
        with suppress(UnreachableError):
            if still := self._look.look(self._connection):
                raise still.error(*self._state())
        self._next_look = time.monotonic() + LOOK_SECONDS

    def _state(self) -> tuple[ConnectorState | None, CdcError | None]:
        """How the connector stands, or why that could not be asked."""
        capture = self._settings.connect
        try:
            with ConnectClient(capture.url) as client:
                return look_up(client, capture.connector), None
        except CdcError as silent:
            return None, silent
