"""The `log` block: the Kafka cluster and the topics of one pipeline."""

from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from cdc.core.settings import Settings, findings_error
from cdc.log.client_options import find_refusal
from cdc.log.login_findings import find_wrong_logins

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


class OAuthSettings(Settings):
    """A token of a server of tokens, by OAuth's client credentials (OIDC)."""

    token_url: str = Field(pattern=r"^https?://[^\s@]+$")
    """Where tokens are given out."""
    client_id: str = Field(min_length=1)
    """Who asks for them."""
    client_secret: SecretStr
    """By reference: `${env:NAME}`, `${file:path}` or `${exec:command}`."""
    scope: str | None = None
    """What is asked for, if the server wants to be told."""
    extensions: dict[str, str] = Field(default_factory=dict)
    """What the brokers are told beside the token, such as `logicalCluster`."""
    ca_file: str | None = None
    """File of the certificates that the server of tokens is believed by; the system's where it is left out."""


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
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """As librdkafka's `sasl.mechanism`; required for SASL_SSL and SASL_PLAINTEXT."""
    username: str | None = None
    """For PLAIN and SCRAM."""
    password: SecretStr | None = None
    """For PLAIN and SCRAM, by reference: `${env:NAME}`, `${file:path}` or `${exec:command}`."""
    oauth: OAuthSettings | None = None
    """For OAUTHBEARER."""
    ca_file: str | None = None
    """File of the certificates to trust, as PEM."""
    certificate_file: str | None = None
    """File of the client's certificate, and of those between it and its authority, as PEM."""
    key_file: str | None = None
    """File of the certificate's private key: PEM of PKCS #8, which Kafka's Java clients ask for."""
    key_password: SecretStr | None = None
    """Of an encrypted key, by reference."""
    client_options: dict[str, str] = Field(default_factory=dict)
    """Further options of all clients, as librdkafka names them; `docs/LOGINS.md` lists them, with what Spark's clients
    get in their place."""

    @field_validator("client_options")
    @classmethod
    def _known_to_all(cls, options: dict[str, str]) -> dict[str, str]:
        refusals = {name: find_refusal(name, value) for name, value in sorted(options.items())}
        if found := [((name,), why) for name, why in refusals.items() if why]:
            raise findings_error(found)
        return options

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if found := list(find_wrong_logins(self.__dict__)):
            raise findings_error(found)
        return self
