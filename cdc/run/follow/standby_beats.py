"""Heartbeats of a capture on a standby: its connector can write none, so who follows writes them on the primary."""

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from cdc.connect.capture.debezium_properties import has_slot_lsns
from cdc.connect.source.heartbeat import write_beat_for
from cdc.core.errors import CdcError
from cdc.core.waiting import Deadline
from cdc.run.health import patience
from cdc.run.pipeline import Pipeline


class StandbyBeats:
    """Writes them for one process; nothing where the connector does it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._next = Deadline(0.0)
        self._has_lsns: bool | None = None

    def write(self, connection: Connection[Any]) -> None:
        """Write one if it is time. `connection` is to the source, in autocommit. Raises like `open_decoding`."""
        source = self._pipeline.settings.source
        if source.standby_host is None or not self._next.is_past:
            return
        # a lock of the table holds up nobody here: the look for a standstill names who has it
        most = f"{patience.LOCK_MILLISECONDS}ms"
        with suppress(psycopg.errors.LockNotAvailable):
            write_beat_for(connection, source, self._pipeline.name, most, has_lsns=self._find_lsns())
        # the looks themselves are as far apart as beats are by default, and every one counts
        self._next = Deadline(source.heartbeat_seconds / 2)

    def _find_lsns(self) -> bool:
        """Does Connect have our class? While it does not answer, a beat goes without an LSN, which is never wrong."""
        if self._has_lsns is None:
            with suppress(CdcError), self._pipeline.open_connect() as client:
                self._has_lsns = has_slot_lsns(self._pipeline.settings.connect, client.extensions())
        return bool(self._has_lsns)
