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
CONFIRMED_LSN = "cdc.connect.ConfirmedLsn"
"""In the same jar as the others; Connect does not list transformations."""


def placeholder(pipeline: str) -> str:
    """What stands for a TOAST value that was not sent: one that no value of a table will ever equal."""
    return f"__cdc_unsent_value_{pipeline}_7c1f0e5ab3__"


@dataclass(frozen=True, slots=True)
class CapturedTables:
    """The tables that are captured, the keys of those whose key is not their primary one, the columns that are followed
    as text by choice, the most bytes that a change may take, and the classes that Connect has on its plugin path, ours
    among them or not."""

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
    """The connector's settings (Debezium connector for PostgreSQL, "Connector properties").

    `connection`: asked for the server's version and time-outs. The user's `overrides` win, and are of what promises do
    not rest on.
    """
    # of a message outside of transactions, Debezium confirms an LSN of which the log would say nothing; and nobody
    # reads the topic of those that are wanted
    is_told = CONFIRMED_LSN in captured.plugins and not sends_messages(capture)
    slot = registration.slot if is_told else None

    def beat(mark: str | None) -> str:
        return heartbeat_query(source, registration.pipeline, mark, slot=slot).as_string(connection)

    own = [TableName(source.heartbeat_schema, name) for name in (HEARTBEAT, HISTORY)]
    return {
        "connector.class": CONNECTOR_CLASS,
        # one slot is one order: the connector never runs more
        "tasks.max": "1",
        "topic.prefix": registration.prefix,
        **_source(source, capture),
        # the default is decoderbufs, an extension that a server has to have
        "plugin.name": "pgoutput",
        "slot.name": registration.slot,
        # with the slot would go what was written while it is stopped
        "slot.drop.on.stop": "false",
        "publication.name": registration.publication,
        # the default makes one of all tables, as a superuser; `filtered` would set ours anew at each start
        "publication.autocreate.mode": "disabled",
        "table.include.list": ",".join(table_pattern(table) for table in (*captured.tables, *own)),
        **_keys(captured.keys),
        # the copy is ours, on the slot's own snapshot; a second one would know nothing of rows deleted meanwhile
        "snapshot.mode": "no_data",
        # by default an offset behind the slot is passed over in silence, and with it what lies between (Postgres 15 on)
        "offset.mismatch.strategy": "trust_offset",
        # the driver's own flushing may move the slot beyond what is in the log
        "lsn.flush.mode": "connector",
        # a slot whose tables are idle keeps the WAL of all others for ever; the query gives it something to confirm
        "heartbeat.interval.ms": str(source.heartbeat_seconds * 1000),
        "heartbeat.action.query": beat(None),
        # with every session that a task opens before it streams: the log then has where the slot stood at that moment
        "database.initial.statements": beat(START),
        **_events(registration),
        **_messages(capture),
        # as in our own sessions: the same text, and nothing that ends them, whatever the server or the role would have
        "driver.options": startup_options(connection.info.server_version, **sender_options(connection)),
        **(_exact_text(registration, captured.texts) if POSTGRES_TEXT in captured.plugins else {}),
        **_throughput(capture),
        **_bounds(captured),
        **_topics(captured),
        **_transformations(captured),
        # KIP-618: records and offsets in one transaction; with it off, a kill -9 sends thousands of transactions again
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        # endless by default, which looks like an idle connector; a task that gives up is told, and started by bootstrap
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
        # what the order of commits is made of: END events with counts, and every change's place in its transaction
        "provide.transaction.metadata": "true",
        # TRUNCATE is skipped by default
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "unavailable.value.placeholder": placeholder(registration.pipeline),
        # the default is bytes in base64, which has no NaN
        "decimal.handling.mode": "string",
        # the default takes a unit a column, by its precision
        "time.precision.mode": "microseconds",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "json",
        "binary.handling.mode": "base64",
        # by default a column of an unknown type is dropped with a line in the worker's log
        "include.unknown.datatypes": "true",
        "event.processing.failure.handling.mode": "fail",
        # who captured it, four headers on every message: nobody reads them, and they cost more than the message
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
    """What Debezium cannot hold whole comes as the text that Postgres writes (`connect/plugin/PostgresText.java`)."""
    listed = sorted(f"{table.schema}.{table.table}\t{column}" for table, columns in texts.items() for column in columns)
    return {
        "converters": "exact",
        "exact.type": POSTGRES_TEXT,
        "exact.placeholder": placeholder(registration.pipeline),
        **({"exact.texts": "\n".join(listed)} if listed else {}),
    }


def _bounds(captured: CapturedTables) -> dict[str, str]:
    """How large a change may be; the producer, whose bound is 1 MB by default, does not say which one was larger."""
    largest = captured.max_row_bytes + FRAME_BYTES
    bounds = {
        "producer.override.max.request.size": str(largest),
        # it holds what is on its way, one message at least
        "producer.override.buffer.memory": str(2 * largest),
    }
    if BOUNDED_JSON not in captured.plugins:
        return bounds
    converters = {"key.converter": BOUNDED_JSON, "value.converter": BOUNDED_JSON}
    return bounds | converters | {"value.converter.max.bytes": str(captured.max_row_bytes)}


def _messages(capture: CaptureSettings) -> dict[str, str]:
    """By default a `pg_logical_emit_message` of any application is sent on, to a topic of its own: where that is not
    there, the producer waits for it for ever, and all tables with it."""
    return {} if sends_messages(capture) else {EXCLUDED_MESSAGES: ALL_MESSAGES}


def sends_messages(capture: CaptureSettings) -> bool:
    """Are messages of `pg_logical_emit_message` wanted in the log? The user's own settings say so, if anything does."""
    asked = capture.overrides
    return INCLUDED_MESSAGES in asked or asked.get(EXCLUDED_MESSAGES, ALL_MESSAGES) != ALL_MESSAGES


def _topics(captured: CapturedTables) -> dict[str, str]:
    return {"topic.naming.strategy": OWN_TOPICS} if has_own_topics(captured.plugins) else {}


def _transformations(captured: CapturedTables) -> dict[str, str]:
    return (
        {"transforms": "confirmed", "transforms.confirmed.type": CONFIRMED_LSN}
        if CONFIRMED_LSN in captured.plugins
        else {}
    )


def has_own_topics(plugins: Set[str]) -> bool:
    """Whether Connect can give every table a topic of its own, by the classes on its plugin path."""
    return BOUNDED_JSON in plugins


def _throughput(capture: CaptureSettings) -> dict[str, str]:
    return {
        "max.batch.size": str(capture.max_batch_size),
        "max.queue.size": str(capture.max_queue_size),
        # unbounded by default: a queue counted in changes only does not know how wide rows are
        "max.queue.size.in.bytes": str(capture.max_queue_bytes),
        # an idle connector looks so often for changes; at 20 ms it takes three times the processor
        "poll.interval.ms": "100",
        "producer.override.compression.type": "lz4",
        "producer.override.linger.ms": "5",
        "producer.override.batch.size": "262144",
    }


def _keys(keys: Mapping[TableName, Sequence[str]]) -> dict[str, str]:
    """Which columns name a row where Debezium would take others."""
    listed = ";".join(f"{table_pattern(table)}:{','.join(columns)}" for table, columns in sorted(keys.items()))
    return {"message.key.columns": listed} if listed else {}


def table_pattern(table: TableName) -> str:
    """The table as Debezium's list of anchored regular expressions reads it; a comma would end the entry."""
    return re.escape(f"{table.schema}.{table.table}").replace(",", r"\x2c")
