"""Debezium's properties for one pipeline: every one whose default would lose or mix changes."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from psycopg import Connection

from cdc.connect.capture.masked_columns import MASKS, MaskedTable, build_mask_properties, check_has_masks, list_name
from cdc.connect.capture.name_patterns import key_patterns, table_pattern
from cdc.connect.fixed_properties import FIXED
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.access.sessions import sender_options, startup_options
from cdc.connect.source.heartbeat import HEARTBEAT, NO_LSN, START, heartbeat_query, slot_lsn
from cdc.connect.source.registration import HISTORY, Registration
from cdc.connect.source_login import is_elliptic
from cdc.core.table import TableName
from cdc.log.names import offsets_topic
from cdc.log.settings import FRAME_BYTES

POSTGRES_TEXT, BOUNDED_JSON = "cdc.connect.PostgresText", "cdc.connect.BoundedJson"
INCLUDED_MESSAGES, EXCLUDED_MESSAGES = "message.prefix.include.list", "message.prefix.exclude.list"
ALL_MESSAGES = ".*"
OFFSETS_TOPIC = "offsets.storage.topic"
"""Of this connector alone (KIP-618): its start waits for every open transaction there, and so for no other's."""
OWN_TOPICS = "cdc.connect.OwnTopics"
"""In the same jar as the others, and of a kind that Connect does not list."""
CONFIRMED_LSN = "cdc.connect.ConfirmedLsn"
WHOLE_TRANSACTIONS = "cdc.connect.WholeTransactions"
OUR_CLASSES: Final = frozenset({POSTGRES_TEXT, BOUNDED_JSON, CONFIRMED_LSN, WHOLE_TRANSACTIONS, MASKS})
"""Those that Connect lists."""


def placeholder(pipeline: str) -> str:
    """The placeholder of an unsent TOAST value: a text that no real value equals."""
    # never to change: the log has it in messages that are still to be decoded
    return f"__cdc_unsent_value_{pipeline}_7c1f0e5ab3__"


@dataclass(frozen=True, slots=True)
class CapturedTables:
    """The tables to capture, and their options.

    `keys`: of tables whose key is not their primary key. `texts`: columns followed as text by choice. `max_row_bytes`:
    of one change. `plugins`: the classes on Connect's plugin path, which may lack ours. `masked`: those with masks.
    """

    tables: Sequence[TableName]
    keys: Mapping[TableName, Sequence[str]]
    texts: Mapping[TableName, Sequence[str]]
    max_row_bytes: int
    plugins: Set[str]
    masked: Mapping[TableName, MaskedTable] = field(default_factory=dict)


def build_properties(
    connection: Connection,
    source: SourceSettings,
    capture: CaptureSettings,
    registration: Registration,
    captured: CapturedTables,
) -> dict[str, str]:
    """Build the connector's properties (Debezium connector for PostgreSQL, "Connector properties").

    `connection` gives the server's version and time-outs. The user's `overrides` win over all but the properties
    of `connect.fixed_properties`. Raises PreconditionError for masks where Connect lacks our class.
    """
    check_has_masks(captured.plugins, captured.masked)

    # With pg_logical_emit_message outside of transactions, Debezium confirms LSNs that no commit in the log has. Then
    # beats carry the slot's LSN only if our transformation writes those LSNs, and no messages are sent.
    has_lsns = has_slot_lsns(capture, captured.plugins)
    slot = slot_lsn(registration.slot) if has_lsns else NO_LSN

    def beat(mark: str | None) -> str:
        return heartbeat_query(source, registration.pipeline, mark, slot=slot).as_string(connection)

    beats = {
        "heartbeat.action.query": beat(None),
        # in every session that a task opens before it streams: so the log has the slot's LSN at that moment
        "database.initial.statements": beat(START),
    }

    return {
        **_tunable(source, capture, captured),
        **capture.overrides,
        **FIXED,
        OFFSETS_TOPIC: offsets_topic(registration.prefix),
        "topic.prefix": registration.prefix,
        "slot.name": registration.slot,
        "publication.name": registration.publication,
        **_tables(source, captured),
        # nothing can be written on a standby: `cdc follow` does it on the primary
        **({} if source.standby_host else beats),
        "unavailable.value.placeholder": placeholder(registration.pipeline),
        # like our own sessions: one text for each value, and no time-outs
        "driver.options": startup_options(connection.info.server_version, **sender_options(connection)),
        **_plugins(registration, captured),
        **build_mask_properties(source, capture, captured.masked),
    }


def _tunable(source: SourceSettings, capture: CaptureSettings, captured: CapturedTables) -> dict[str, str]:
    """Properties that a user may override."""
    return {
        **_source(source, capture),
        # a slot of idle tables keeps WAL for ever; the heartbeat gives it something to confirm
        "heartbeat.interval.ms": str(source.heartbeat_seconds * 1000),
        # four headers on every message that nobody reads; they are larger than the message
        "extended.headers.enabled": "false",
        # by default messages of `pg_logical_emit_message` go to a topic of their own; without that topic the producer
        # blocks for ever, and with it all tables
        **({} if sends_messages(capture) else {EXCLUDED_MESSAGES: ALL_MESSAGES}),
        **_throughput(capture),
        **_bounds(captured),
        # endless by default, which looks like an idle connector; a failed task is reported, and bootstrap restarts it
        "errors.max.retries": "30",
        "retriable.restart.connector.wait.ms": "5000",
    }


def _source(source: SourceSettings, capture: CaptureSettings) -> dict[str, str]:
    settings = {
        "database.hostname": capture.source_host or source.decoding.host,
        "database.port": str(capture.source_port or source.decoding.port),
        "database.dbname": source.dbname,
        "database.user": source.user,
        "database.password": capture.password_reference or source.password.get_secret_value(),
        "database.sslmode": source.sslmode,
    }
    files = {name: getattr(source, name) for name in ("sslrootcert", "sslcert", "sslkey")}
    settings |= {f"database.{name}": file for name, file in files.items() if file}
    if source.channel_binding != "prefer":
        settings["driver.channelBinding"] = source.channel_binding
    if source.sslkey and is_elliptic(source.sslkey):
        # the driver takes a key for one of RSA
        settings["driver.pemKeyAlgorithm"] = "EC"
    return settings


def _tables(source: SourceSettings, captured: CapturedTables) -> dict[str, str]:
    """The tables to capture and our own, and keys that differ from the primary keys, which Debezium would use."""
    own = [TableName(source.heartbeat_schema, name) for name in (HEARTBEAT, HISTORY)]
    keys = [key_patterns(table, columns) for table, columns in sorted(captured.keys.items())]
    return {
        "table.include.list": ",".join(table_pattern(table) for table in (*captured.tables, *own)),
        **({"message.key.columns": ";".join(keys)} if keys else {}),
    }


def _plugins(registration: Registration, captured: CapturedTables) -> dict[str, str]:
    """Properties of our classes, as far as Connect has them."""
    properties: dict[str, str] = {}
    if POSTGRES_TEXT in captured.plugins:
        properties |= _exact_text(registration, captured.texts)
    if BOUNDED_JSON in captured.plugins:
        properties |= {"key.converter": BOUNDED_JSON, "value.converter": BOUNDED_JSON}
    if has_own_topics(captured.plugins):
        properties |= {"topic.naming.strategy": OWN_TOPICS}
    return properties | _transforms(captured.plugins)


def _transforms(plugins: Set[str]) -> dict[str, str]:
    # in this order: a heartbeat names the LSN that its offset confirms, once that is moved back
    own = {"whole": WHOLE_TRANSACTIONS, "confirmed": CONFIRMED_LSN}
    used = {name: kind for name, kind in own.items() if kind in plugins}
    listed = {"transforms": ",".join(used)} if used else {}
    return listed | {f"transforms.{name}.type": kind for name, kind in used.items()}


def _exact_text(registration: Registration, texts: Mapping[TableName, Sequence[str]]) -> dict[str, str]:
    """Properties of our converter, which sends Postgres's own text (`connect/plugin/PostgresText.java`)."""
    listed = sorted(
        f"{list_name(str(table))}\t{list_name(column)}" for table, columns in texts.items() for column in columns
    )
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
    return bounds | {"value.converter.max.bytes": str(captured.max_row_bytes)}


def sends_messages(capture: CaptureSettings) -> bool:
    """Do the user's overrides include messages of `pg_logical_emit_message`?"""
    asked = capture.overrides
    return INCLUDED_MESSAGES in asked or asked.get(EXCLUDED_MESSAGES, ALL_MESSAGES) != ALL_MESSAGES


def has_slot_lsns(capture: CaptureSettings, plugins: Set[str]) -> bool:
    """Does the log have every LSN that is confirmed to the slot, so that beats may name it?"""
    return CONFIRMED_LSN in plugins and not sends_messages(capture)


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
