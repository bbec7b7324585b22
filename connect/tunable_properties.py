"""The connector's properties that `connect.overrides` may set: none of them decides what is sent, or in which order."""

from typing import Final

KAFKA_CLIENTS: Final = ("admin", "consumer", "producer")
_OF_CLIENTS: Final = tuple(f"{client}.override." for client in KAFKA_CLIENTS)
_SECURITY: Final = ("bootstrap.servers", "sasl.", "security.protocol", "ssl.")
"""With another listener of the cluster, where the workers' own is not the connector's."""
_FAMILIES: Final = ("database.ssl", *(client + kind for client in _OF_CLIENTS for kind in _SECURITY))

TUNABLE: Final = frozenset(
    {
        # its session on the source
        "connection.validation.timeout.ms",
        "database.password",
        "database.query.timeout.ms",
        "database.tcpKeepAlive",
        "database.user",
        "slot.max.retries",
        "slot.retry.delay.ms",
        "status.update.interval.ms",
        "xmin.fetch.interval.ms",
        # how much it holds, and how often it looks
        "max.batch.size",
        "max.queue.size",
        "max.queue.size.in.bytes",
        "poll.interval.ms",
        "streaming.delay.ms",
        # what it does when a server does not answer; `errors.tolerance` would skip messages
        "config.action.reload",
        "errors.log.enable",
        "errors.log.include.messages",
        "errors.max.retries",
        "errors.retry.delay.initial.ms",
        "errors.retry.delay.max.ms",
        "executor.shutdown.timeout.ms",
        "retriable.restart.connector.wait.ms",
        # what is sent beside the changes
        "custom.metric.tags",
        "extended.headers.enabled",
        "message.prefix.exclude.list",
        "message.prefix.include.list",
        # its producer
        "producer.override.batch.size",
        "producer.override.buffer.memory",
        "producer.override.client.rack",
        "producer.override.compression.gzip.level",
        "producer.override.compression.lz4.level",
        "producer.override.compression.type",
        "producer.override.compression.zstd.level",
        "producer.override.connections.max.idle.ms",
        "producer.override.delivery.timeout.ms",
        "producer.override.linger.ms",
        "producer.override.max.block.ms",
        "producer.override.max.request.size",
        "producer.override.metadata.max.age.ms",
        "producer.override.receive.buffer.bytes",
        "producer.override.reconnect.backoff.max.ms",
        "producer.override.reconnect.backoff.ms",
        "producer.override.request.timeout.ms",
        "producer.override.retry.backoff.max.ms",
        "producer.override.retry.backoff.ms",
        "producer.override.send.buffer.bytes",
        "producer.override.transaction.timeout.ms",
    }
)
"""Properties that a user may set, beside those of TLS and of logins."""

_INSTEAD: Final = {
    "database.dbname": "source.dbname",
    "database.hostname": "connect.source_host",
    "database.port": "connect.source_port",
    "heartbeat.interval.ms": "source.heartbeat_seconds",
    "message.key.columns": "source.keys",
    "publication.name": "source.publication",
    "slot.name": "source.slot",
    "table.include.list": "source.tables",
    "topic.prefix": "log.prefix",
    "value.converter.max.bytes": "log.max_row_bytes",
}
"""Properties that have a setting of ours."""


def find_refusal(name: str) -> str | None:
    """Why this property may not be set; None if it may."""
    if name in TUNABLE or name.startswith(_FAMILIES):
        return None
    instead = f"set {_INSTEAD[name]}" if name in _INSTEAD else "connect/README.md lists what can be"
    return f"cannot be overridden: decoding and order may depend on it; {instead}"
