"""Debezium's configuration for one pipeline: every setting whose default would lose or mix something."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from psycopg import Connection

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.log.settings import FRAME_BYTES
from connect.connector_state import look_up
from connect.heartbeat import HEARTBEAT, START, heartbeat_query
from connect.registration import HISTORY, Registration
from connect.rest import ConnectClient
from connect.sessions import sender_options, startup_options
from connect.settings import CaptureSettings, SourceSettings

STOP_SECONDS = 60.0
RESTART_SECONDS = 10.0
CONNECTOR_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
POSTGRES_TEXT, BOUNDED_JSON = "cdc.connect.PostgresText", "cdc.connect.BoundedJson"
INCLUDED_MESSAGES, EXCLUDED_MESSAGES = "message.prefix.include.list", "message.prefix.exclude.list"
ALL_MESSAGES = ".*"
OWN_TOPICS = "cdc.connect.OwnTopics"
"""In the same jar as the others, and of a kind that Connect does not list."""
CONFIRMED_LSN = "cdc.connect.ConfirmedLsn"


def placeholder(pipeline: str) -> str:
    """What stands for a TOAST value that was not sent: one that no value of a table will ever equal."""
    return f"__cdc_unsent_value_{pipeline}_7c1f0e5ab3__"


@dataclass(frozen=True, slots=True)
class Captured:
    """The tables that are captured, the keys of those whose key is not their primary one, the columns that are followed
    as text by choice, the most bytes that a change may take, and the classes that Connect has on its plugin path, ours
    among them or not."""

    tables: Sequence[TableName]
    keys: Mapping[TableName, Sequence[str]]
    texts: Mapping[TableName, Sequence[str]]
    max_row_bytes: int
    plugins: Set[str]


def configuration(
    connection: Connection,
    source: SourceSettings,
    capture: CaptureSettings,
    registration: Registration,
    captured: Captured,
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
        "table.include.list": ",".join(_exactly(table) for table in (*captured.tables, *own)),
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
    """What Debezium cannot hold whole comes as the text that Postgres writes (`cdc/local/plugin/PostgresText.java`)."""
    listed = sorted(f"{table.schema}.{table.table}\t{column}" for table, columns in texts.items() for column in columns)
    return {
        "converters": "exact",
        "exact.type": POSTGRES_TEXT,
        "exact.placeholder": placeholder(registration.pipeline),
        **({"exact.texts": "\n".join(listed)} if listed else {}),
    }


def _bounds(captured: Captured) -> dict[str, str]:
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


def _topics(captured: Captured) -> dict[str, str]:
    return {"topic.naming.strategy": OWN_TOPICS} if has_own_topics(captured.plugins) else {}


def _transformations(captured: Captured) -> dict[str, str]:
    if CONFIRMED_LSN not in captured.plugins:
        return {}
    return {"transforms": "confirmed", "transforms.confirmed.type": CONFIRMED_LSN}


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
    listed = ";".join(f"{_exactly(table)}:{','.join(columns)}" for table, columns in sorted(keys.items()))
    return {"message.key.columns": listed} if listed else {}


def _exactly(table: TableName) -> str:
    """The table as Debezium's list of anchored regular expressions reads it; a comma would end the entry."""
    return re.escape(f"{table.schema}.{table.table}").replace(",", r"\x2c")


def start(client: ConnectClient, name: str, config: dict[str, str]) -> str | None:
    """Give Connect the configuration, if it has not got it yet, and start what failed; says what was done, if anything.

    Raises PreconditionError when Connect lacks Debezium's plugin or refuses the configuration.
    """
    if client.config(name) == {**config, "name": name}:
        return _revived(client, name)
    _check_config(client, name, config)
    known = client.config(name) is not None
    if known:
        _stop(client, name)
    client.put(name, config)
    # a connector that was stopped stays so under a new configuration (KIP-875)
    client.resume(name)
    return "started with another configuration" if known else "started"


def _revived(client: ConnectClient, name: str) -> str | None:
    """Kafka Connect never starts a failed task again by itself, nor one that somebody paused or stopped."""
    found = look_up(client, name)
    if found.idle is not None:
        # a task that had failed before stays failed; resuming is answered before it has happened, too
        client.resume(name)
        _within(RESTART_SECONDS, lambda: look_up(client, name).idle is None)
    if found.failure is not None:
        client.restart(name)
        # a restart is accepted before it happens (KIP-745): whoever looks too early sees the old failure
        _within(RESTART_SECONDS, lambda: failure(client, name) is None)
        return f"started again; it had failed: {found.failure}"
    return f"resumed; it was {found.idle}" if found.idle is not None else None


def halt(client: ConnectClient, name: str) -> None:
    """Stop the connector, if there is one, until no task is left. Raises PreconditionError when it does not stop."""
    if look_up(client, name).state is not None:
        _stop(client, name)


def start_anew(client: ConnectClient, name: str, config: dict[str, str]) -> None:
    """Start a connector from the beginning of its slot: what it, or another of its name, had read before is forgotten.

    Raises PreconditionError as `start` does.
    """
    _check_config(client, name, config)
    # offsets outlive a connector that was deleted, and can be forgotten while one of the name is there and stopped
    if client.config(name) is None:
        client.make_stopped(name, config)
    _stop(client, name)
    client.forget_offsets(name)
    client.put(name, config)
    client.resume(name)


def _check_config(client: ConnectClient, name: str, config: Mapping[str, str]) -> None:
    if CONNECTOR_CLASS not in client.plugins():
        raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")
    problems = client.problems({**config, "name": name})
    if problems:
        raise PreconditionError("Kafka Connect refuses the connector: " + "; ".join(problems), "correct cdc.yaml")


def _stop(client: ConnectClient, name: str) -> None:
    """Stop it until no task is left: a task with the old list of tables must not write behind a new one's start."""
    client.stop(name)
    if not _within(STOP_SECONDS, lambda: _has_stopped(client, name)):
        raise PreconditionError(f"connector {name} does not stop", "see Kafka Connect's log")


def _has_stopped(client: ConnectClient, name: str) -> bool:
    found = look_up(client, name)
    return found.state is None or (found.state == "STOPPED" and not found.tasks)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def failure(client: ConnectClient, name: str) -> str | None:
    """The first line of what a failed connector or task says; None while none has failed."""
    return look_up(client, name).failure


def captures(client: ConnectClient, name: str, tables: Iterable[TableName]) -> bool:
    """Is one of these tables among those that the connector is to send?"""
    listed = (client.config(name) or {}).get("table.include.list", "").split(",")
    return any(_exactly(table) in listed for table in tables)
