"""A row written into the source and seen in the log: proof that capture is running, and how far."""

import json
import time
from dataclasses import dataclass
from uuid import uuid4

from psycopg import Connection

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader, Record
from cdc.log.names import change_topic
from cdc.log.settings import LogSettings
from connect.connector import broken
from connect.heartbeat import HEARTBEAT, read_beat, write_heartbeat
from connect.rest import ConnectClient
from connect.settings import SourceSettings

PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Capture:
    """One pipeline's way from the source into the log."""

    source: SourceSettings
    log: LogSettings
    client: ConnectClient
    connector: str
    pipeline: str


def prove(connection: Connection, capture: Capture, patience: float = PATIENCE_SECONDS) -> None:
    """Write a marker and wait until the log carries it: everything committed before it is there too.

    Raises PreconditionError with the connector's own words when it has failed, or when the marker does not come.
    """
    topic = change_topic(capture.log.prefix, TableName(capture.source.heartbeat_schema, HEARTBEAT))
    mark = f"marker {uuid4()}"
    with Reader(capture.log) as reader:
        # before the row is written: it lies behind this offset, however quickly it comes
        start = reader.end([topic])[topic].get(0, 0)
        write_heartbeat(connection, capture.source, capture.pipeline, mark)
        deadline = time.monotonic() + patience
        while not _seen(reader, topic, start, mark):
            # behind the look at the log: a marker that came counts, even if the connector failed since
            _check(capture.client, capture.connector, deadline)
            time.sleep(POLL_SECONDS)


def _seen(reader: Reader, topic: str, start: int, mark: str) -> bool:
    end = reader.end([topic])[topic].get(0, 0)
    return any(_mark_of(record) == mark for record in reader.read(topic, 0, start, end))


def _mark_of(record: Record) -> str | None:
    try:
        beat = read_beat(str(json.loads(record.value or b"null")["after"]["beat"]))
    except (ValueError, KeyError, TypeError):
        return None
    return beat.mark if beat else None


def _check(client: ConnectClient, connector: str, deadline: float) -> None:
    failed = broken(client, connector)
    if failed:
        raise failed
    if time.monotonic() > deadline:
        raise PreconditionError(
            f"connector {connector} runs, but a row written to the source did not reach the log",
            "see Kafka Connect's log",
        )
