"""The capture probe: writes a row into the source, and waits until the log has it."""

import time
from dataclasses import dataclass
from uuid import uuid4

import msgspec
from psycopg import Connection

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import is_fenced, look_up
from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import HEARTBEAT, read_beat, write_heartbeat
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.log.clients.reader import Reader, Record
from cdc.log.names import change_topic
from cdc.log.settings import LogSettings
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.trouble import PASS_OVER, find_trouble

POLL_SECONDS = 0.1
LOOK_SECONDS = 2.0
"""Between two checks that the capture moves: it may have many changes to send before the row."""
IDLE_SECONDS = 10.0
"""The time that Kafka Connect may take to start a new or resumed connector."""
ANEW_SECONDS = 60.0
"""The same for a restarted connector, with its task's connection to the source."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The capture of one pipeline: source, log and connector."""

    source: SourceSettings
    log: LogSettings
    client: ConnectClient
    connector: str
    pipeline: str


def wait_until_captured(connection: Connection, capture: Capture) -> str | None:
    """Write a marker and wait until the log has it, and with it everything committed before.

    Waits as long as the capture moves. If it stands still, the connector is restarted once; the returned note says so.
    Raises PreconditionError when the connector has failed, or still stands still after the restart.
    """
    topic = change_topic(capture.log.prefix, TableName(capture.source.heartbeat_schema, HEARTBEAT))
    # unique: beats of other waits are in the log, too
    mark, watch = f"marker {uuid4()}", _Watch(connection, capture)
    with Reader(capture.log) as reader:
        # before the row is written, so that it is behind this offset
        start = reader.end([topic])[topic].get(0, 0)
        write_heartbeat(connection, capture.source, capture.pipeline, mark)
        while not _is_in_log(reader, topic, start, mark):
            # after reading the log: an arrived marker counts, even if the connector has failed since
            watch.check()
            time.sleep(POLL_SECONDS)
    return watch.done


class _Watch:
    """Watches the capture during the wait, and restarts it once; `done` is a note of that."""

    def __init__(self, connection: Connection, capture: Capture) -> None:
        self._connection = connection
        self._capture = capture
        self._progress = CaptureObserver(capture.source, capture.log, capture.pipeline)
        self._ran, self._next_look = time.monotonic(), Deadline(LOOK_SECONDS)
        self.done: str | None = None

    def check(self) -> None:
        """Raise for a connector that failed or does not start; restart one that stands still."""
        found = look_up(self._capture.client, self._capture.connector)
        if is_fenced(found) and not self.done:
            # the cause of the standstill is gone, but the broker has aborted its transaction
            self._start_anew(f"connector {found.name} stood still for too long ({found.failure})")
            return
        failed = find_trouble(self._connection, self._capture.source, found, PASS_OVER)
        self._ran = self._ran if failed else max(self._ran, time.monotonic())
        # the REST call returns before the restart: until then the old failure is visible
        patience = IDLE_SECONDS if found.failure is None else 0.0
        if failed and time.monotonic() - self._ran >= patience:
            raise failed
        if self._next_look.is_past:
            self._next_look = Deadline(LOOK_SECONDS)
            still = self._progress.look(self._connection)
            if still and (self.done or still.obstacle):
                raise still.error(found, otherwise=f"see Kafka Connect's log; {PASS_OVER}")
            if still:
                self._start_anew(still.error(found).what)

    def _start_anew(self, why: str) -> None:
        self._capture.client.restart(self._capture.connector, whole=True)
        self.done = f"{why}: connector {self._capture.connector} was started anew"
        # ahead of now: for so long Connect may still report the failure before the restart
        self._ran, self._next_look = time.monotonic() + IDLE_SECONDS, Deadline(ANEW_SECONDS)


class _Row(msgspec.Struct):
    beat: str


class _Change(msgspec.Struct):
    after: _Row


def _is_in_log(reader: Reader, topic: str, start: int, mark: str) -> bool:
    end = reader.end([topic])[topic].get(0, 0)
    return any(_mark_of(record) == mark for record in reader.read(topic, 0, start, end))


def _mark_of(record: Record) -> str | None:
    try:
        beat = read_beat(msgspec.json.decode(record.value or b"", type=_Change).after.beat)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # a tombstone, or a delete of the row
        return None
    return beat.mark if beat else None
