"""The `log` block: the Kafka cluster and the topics of one pipeline."""

from typing import Final, Literal

from pydantic import Field, SecretStr

from cdc.core.settings import Settings

FRAME_BYTES: Final = 64 * 1024
"""Bytes of a message besides its key and value."""


class LatestTopicSettings(Settings):
    """Compaction of the latest topics."""

    min_compaction_lag_seconds: int = Field(default=0, ge=0)
    """How long a record is safe from compaction."""
    delete_retention_seconds: int = Field(default=7 * 86400, ge=1)
    """How long a tombstone stays: longer than the longest absence of a consumer."""
    max_compaction_lag_seconds: int = Field(default=7 * 86400, ge=1)
    """After how long a record has to be compacted, however small its topic."""
    segment_seconds: int = Field(default=86400, ge=1)
    """How long a segment stays active; an active segment is never compacted."""
    dirty_ratio: float = Field(default=0.5, ge=0, le=1)
    """Compaction begins when this part of the log has not been through it yet."""
    max_record_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    """The largest row, as JSON, that the topics take."""


class LogSettings(Settings):
    bootstrap: str = Field(min_length=1)
    """Addresses of brokers, `host:port`, separated by commas."""
    prefix: str = Field(default="", pattern=r"^[a-zA-Z0-9_-]{0,100}$")
    """First part of every topic's name; the pipeline's name where it is left out. It cannot be changed later."""
    partitions: int = Field(default=3, ge=1, le=1000)
    """Partitions of every change topic and latest topic. It cannot be changed later: keys would move."""
    replication_factor: int = Field(default=1, ge=1)
    """Replicas of every topic. `min.insync.replicas` is one less, and at least 1."""
    retention_hours: int = Field(default=14 * 24, ge=1)
    """How long every change is kept: longer than the longest absence of a follower."""
    max_row_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """The largest change, key and value as JSON, that the change topics take: a larger one ends the capture. Brokers,
    readers and search clusters take no request above 100 MB unless they are told to."""
    latest: LatestTopicSettings = LatestTopicSettings()
    """Compaction of the latest topics."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"] = "PLAINTEXT"
    """As librdkafka's `security.protocol`."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """As librdkafka's `sasl.mechanism`."""
    username: str | None = None
    """For SASL."""
    password: SecretStr | None = None
    """For SASL, by reference: `${env:NAME}` or `${file:path}`."""
    ca_file: str | None = None
    """File of the certificates to trust."""
