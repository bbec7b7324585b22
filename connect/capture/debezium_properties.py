"""Debezium's properties for one pipeline: every one whose default would lose or mix changes."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from psycopg import Connection

from cdc.core.table import TableName
from cdc.log.settings import FRAME_BYTES
from connect.settings import CaptureSettings, SourceSettings
from connect.source.heartbeat import HEARTBEAT, START, heartbeat_query
from connect.source.registration import HISTORY, Registration
from connect.source.sessions import sender_options, startup_options

CONNECTOR_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
POSTGRES_TEXT, BOUNDED_JSON = "cdc.connect.PostgresText", "cdc.connect.BoundedJson"
INCLUDED_MESSAGES, EXCLUDED_MESSAGES = "message.prefix.include.list", "message.prefix.exclude.list"
ALL_MESSAGES = ".*"
OWN_TOPICS = "cdc.connect.OwnTopics"
"""In the same jar as the others, and of a kind that Connect does not list."""
CONFIRMED_LSN = "cdc.connect.ConfirmedLsn"


def placeholder(pipeline: str) -> str:
    """The placeholder of an unsent TOAST value: a text that no real value equals."""
    return f"__cdc_unsent_value_{pipeline}_7c1f0e5ab3__"


@dataclass(frozen=True, slots=True)
class CapturedTables:
    """The tables to capture, and their options.

    `keys`: of tables whose key is not their primary key. `texts`: columns followed as text by choice. `max_row_bytes`:
    of one change. `plugins`: the classes on Connect's plugin path, which may lack ours.
    """

    tables: Sequence[TableName]
    keys: Mapping[TableName, Sequence[str]]
    texts: Mapping[TableName, Sequence[str]]
    max_row_bytes: int
    plugins: Set[str]


def build_properties(
    connection: Connection,
    source: SourceSettings,
    capture: CaptureSettings,
    registration: Registration,
    captured: CapturedTables,
) -> dict[str, str]:
    """Build the connector's properties (Debezium connector for PostgreSQL, "Connector properties").

    `connection` gives the server's version and time-outs. The user's `overrides` win; `connect.settings.DECIDED` lists
    the properties that they cannot contain.
    """
    # With pg_logical_emit_message outside of transactions, Debezium confirms LSNs that no commit in the log has. Then
    # beats carry the slot's LSN only if our transformation writes those LSNs, and no messages are sent.
    has_lsns = CONFIRMED_LSN in captured.plugins and not sends_messages(capture)
    slot = registration.slot if has_lsns else None

    def beat(mark: str | None) -> str:
        return heartbeat_query(source, registration.pipeline, mark, slot=slot).as_string(connection)

    own = [TableName(source.heartbeat_schema, name) for name in (HEARTBEAT, HISTORY)]
    return {
        "connector.class": CONNECTOR_CLASS,
        # one slot has one order: the connector never runs more tasks
        "tasks.max": "1",
        "topic.prefix": registration.prefix,
        **_source(source, capture),
        # the default decoderbufs is an extension of the server
        "plugin.name": "pgoutput",
        "slot.name": registration.slot,
        # dropping the slot would lose changes made while the connector is stopped
        "slot.drop.on.stop": "false",
        "publication.name": registration.publication,
        # the default creates one for all tables, as superuser; `filtered` would replace ours at each start
        "publication.autocreate.mode": "disabled",
        "table.include.list": ",".join(table_pattern(table) for table in (*captured.tables, *own)),
        **_keys(captured.keys),
        # we copy the tables ourselves, on the slot's snapshot; a second snapshot would miss deletes in between
        "snapshot.mode": "no_data",
        # by default an offset below the slot's is raised to it without an error, and the changes between are lost
        "offset.mismatch.strategy": "trust_offset",
        # the driver's own flushing may confirm changes that are not in Kafka yet
        "lsn.flush.mode": "connector",
        # a slot of idle tables keeps WAL for ever; the heartbeat gives it something to confirm
        "heartbeat.interval.ms": str(source.heartbeat_seconds * 1000),
        "heartbeat.action.query": beat(None),
        # in every session that a task opens before it streams: so the log has the slot's LSN at that moment
        "database.initial.statements": beat(START),
        **_events(registration),
        **_messages(capture),
        # like our own sessions: one text for each value, and no time-outs
        "driver.options": startup_options(connection.info.server_version, **sender_options(connection)),
        **(_exact_text(registration, captured.texts) if POSTGRES_TEXT in captured.plugins else {}),
        **_throughput(capture),
        **_bounds(captured),
        **_topics(captured),
        **_transformations(captured),
        # KIP-618: records and offsets in one transaction; without it, a kill -9 redelivers thousands of transactions
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        # endless by default, which looks like an idle connector; a failed task is reported, and bootstrap restarts it
        "errors.max.retries": "30",
        "retriable.restart.connector.wait.ms": "5000",
        **capture.overrides,
    }


def _source(source: SourceSettings, capture: CaptureSettings) -> dict[str, str]:
    settings = {
        "database.hostname": capture.source_host or source.host,
        "database.port": str(capture.source_port or source.port),
        "database.dbname": source.dbname,
        "database.user": source.user,
        "database.password": capture.password_reference or source.password.get_secret_value(),
        "database.sslmode": source.sslmode,
    }
    return settings | ({"database.sslrootcert": source.sslrootcert} if source.sslrootcert else {})


def _events(registration: Registration) -> dict[str, str]:
    return {
        # gives the order of commits: END events with counts, and the number of each change in its transaction
        "provide.transaction.metadata": "true",
        # TRUNCATE is skipped by default
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "unavailable.value.placeholder": placeholder(registration.pipeline),
        # the default is bytes in base64, which cannot express NaN
        "decimal.handling.mode": "string",
        # by default the unit depends on the column's precision
        "time.precision.mode": "microseconds",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "json",
        "binary.handling.mode": "base64",
        # by default a column of an unknown type is left out, with a line in the worker's log
        "include.unknown.datatypes": "true",
        "event.processing.failure.handling.mode": "fail",
        # four headers on every message that nobody reads; they are larger than the message
        "extended.headers.enabled": "false",
        "header.converter": "org.apache.kafka.connect.json.JsonConverter",
        "header.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        # by default a null is sent as the default of its column (KIP-581)
        "key.converter.replace.null.with.default": "false",
        "value.converter.replace.null.with.default": "false",
    }


def _exact_text(registration: Registration, texts: Mapping[TableName, Sequence[str]]) -> dict[str, str]:
    """Properties of our converter, which sends Postgres's own text (`connect/plugin/PostgresText.java`)."""
    listed = sorted(f"{table.schema}.{table.table}\t{column}" for table, columns in texts.items() for column in columns)
    return {
        "converters": "exact",
        "exact.type": POSTGRES_TEXT,
        "exact.placeholder": placeholder(registration.pipeline),
        **({"exact.texts": "\n".join(listed)} if listed else {}),
    }


def _bounds(captured: CapturedTables) -> dict[str, str]:
    """Properties for the size of a change; the producer's own error (above 1 MB) does not name the row."""
    largest = captured.max_row_bytes + FRAME_BYTES
    bounds = {
        "producer.override.max.request.size": str(largest),
        # messages on their way; at least one must fit
        "producer.override.buffer.memory": str(2 * largest),
    }
    if BOUNDED_JSON not in captured.plugins:
        return bounds
    converters = {"key.converter": BOUNDED_JSON, "value.converter": BOUNDED_JSON}
    return bounds | converters | {"value.converter.max.bytes": str(captured.max_row_bytes)}


def _messages(capture: CaptureSettings) -> dict[str, str]:
    """Exclude messages of `pg_logical_emit_message`, unless the user wants them.

    By default Debezium sends them to a topic of their own; without that topic the producer blocks for ever, and with it
    all tables.
    """
    return {} if sends_messages(capture) else {EXCLUDED_MESSAGES: ALL_MESSAGES}


def sends_messages(capture: CaptureSettings) -> bool:
    """Do the user's overrides include messages of `pg_logical_emit_message`?"""
    asked = capture.overrides
    return INCLUDED_MESSAGES in asked or asked.get(EXCLUDED_MESSAGES, ALL_MESSAGES) != ALL_MESSAGES


def _topics(captured: CapturedTables) -> dict[str, str]:
    return {"topic.naming.strategy": OWN_TOPICS} if has_own_topics(captured.plugins) else {}


def _transformations(captured: CapturedTables) -> dict[str, str]:
    if CONFIRMED_LSN not in captured.plugins:
        return {}
    return {"transforms": "confirmed", "transforms.confirmed.type": CONFIRMED_LSN}


def has_own_topics(plugins: Set[str]) -> bool:
    """Does Connect have our plugin, which gives every table a topic of its own?"""
    return BOUNDED_JSON in plugins


def _throughput(capture: CaptureSettings) -> dict[str, str]:
    return {
        "max.batch.size": str(capture.max_batch_size),
        "max.queue.size": str(capture.max_queue_size),
        # unbounded by default; the limit in changes says nothing about wide rows
        "max.queue.size.in.bytes": str(capture.max_queue_bytes),
        # how often an idle connector polls; at 20 ms it takes three times the CPU
        "poll.interval.ms": "100",
        "producer.override.compression.type": "lz4",
        "producer.override.linger.ms": "5",
        "producer.override.batch.size": "262144",
    }


def _keys(keys: Mapping[TableName, Sequence[str]]) -> dict[str, str]:
    """Keys that differ from the primary keys, which Debezium would use."""
    listed = ";".join(f"{table_pattern(table)}:{','.join(columns)}" for table, columns in sorted(keys.items()))
    return {"message.key.columns": listed} if listed else {}


def table_pattern(table: TableName) -> str:
    """Make a regular expression that matches this table only; a comma would end the list's entry, so it is escaped."""
    return re.escape(f"{table.schema}.{table.table}").replace(",", r"\x2c")
