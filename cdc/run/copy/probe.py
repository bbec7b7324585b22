"""The capture probe: writes a row into the source, and waits until the log has it."""

import time
from uuid import uuid4

from psycopg import Connection

from cdc.connect.capture.connector import restart
from cdc.connect.source.heartbeat import heartbeat_table, write_heartbeat
from cdc.core.waiting import Deadline
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic
from cdc.run.health import patience
from cdc.run.health.capture_health import CaptureHealth
from cdc.run.health.result import Failing
from cdc.run.health.trouble import is_fenced
from cdc.run.pipeline import Pipeline


def wait_until_captured(pipeline: Pipeline, connection: Connection) -> str | None:
    """Write a marker and wait until the log has it, and with it everything committed before.

    Waits as long as the capture moves. If it stands still, the connector is restarted once; the returned note says so.
    Raises CdcError when the connector has failed, or still stands still after the restart.
    """
    src, log = pipeline.settings.source, pipeline.settings.log
    topic = change_topic(log.prefix, heartbeat_table(src).name)
    # unique: beats of other waits are in the log, too
    mark, watch = f"marker {uuid4()}", _Watch(pipeline, connection)
    with pipeline.open_log() as reader:
        # before the row is written, so that it is behind this offset
        start = reader.end([topic])[topic].get(0, 0)
        write_heartbeat(connection, src, pipeline.name, mark)
        while not _is_in_log(reader, topic, start, mark):
            # after reading the log: an arrived marker counts, even if the connector has failed since
            watch.check()
            time.sleep(patience.PROBE_SECONDS)
    return watch.done


class _Watch:
    """Watches the capture during the wait, and restarts it once; `done` is a note of that."""

    def __init__(self, pipeline: Pipeline, connection: Connection) -> None:
        self._pipeline = pipeline
        self._connection = connection
        # who starts a capture has checked the slot, or has just made it: then no commit of the log is where it stands
        self._health = CaptureHealth(pipeline, is_behind_start=True, asks_slot=False)
        # of the connector, and whether data moves
        self._next_check, self._next_look = Deadline(patience.LOOK_SECONDS), Deadline(0.0)
        self.done: str | None = None

    def check(self) -> None:
        """Raise for a connector that failed or does not start; restart one that stands still."""
        if not self._next_check.is_past:
            return
        check = self._health.check if self._next_look.is_past else self._health.check_connector
        found = check(patience.STARTING, self._connection)
        if isinstance(found, Failing):
            self._mend(found)
        self._next_check = Deadline(patience.LOOK_SECONDS)

    def _mend(self, found: Failing) -> None:
        state = self._health.connector
        if state and is_fenced(state) and not self.done:
            # the cause of the standstill is gone, but the broker has aborted its transaction
            self._start_anew(f"connector {state.name} stood still for too long ({state.failure})")
        elif found.is_final or self.done:
            raise found.error
        else:
            self._start_anew(found.error.what)

    def _start_anew(self, why: str) -> None:
        name = self._pipeline.settings.connect.connector
        with self._pipeline.open_connect() as client:
            is_restarted = restart(client, name, whole=True)
        self.done = f"{why}: connector {name} was {'started anew' if is_restarted else 'slow to start'}"
        self._next_look = Deadline(patience.ANEW_SECONDS)


def _is_in_log(reader: Reader, topic: str, start: int, mark: str) -> bool:
    end = reader.end([topic])[topic].get(0, 0)
    # as text: no other message has a mark that is made for this wait
    return any(mark.encode() in (record.value or b"") for record in reader.read(topic, 0, start, end))
