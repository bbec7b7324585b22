"""Does the capture run, for somebody who waits for what it brings? Asked now and then while that is waited for."""

import time
from contextlib import suppress
from typing import Final

from psycopg import Connection

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, UnreachableError
from connect.capture.connect_client import ConnectClient
from connect.capture.connector_state import ConnectorState, look_up, trouble
from connect.capture.observation import CaptureLook

LOOK_SECONDS: Final = 3.0
"""Between two looks: most waits are over before the first."""


class CaptureCheck:
    """Raises CaptureTrouble as soon as what is waited for will not come by itself; `connection` is to the source."""

    def __init__(self, settings: PipelineSettings, connection: Connection) -> None:
        self._settings = settings
        self._connection = connection
        self._look = CaptureLook(settings.source, settings.log, settings.pipeline.name)
        self._next_look = time.monotonic() + LOOK_SECONDS

    def check_connector(self) -> None:
        """Raise for a connector that failed, or that somebody paused, stopped or deleted.

        A Kafka Connect that does not answer may run it all the same.
        """
        found, _ = self._state()
        if found and (failed := trouble(found)):
            raise self._look.since(self._connection, failed)

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
