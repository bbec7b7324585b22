"""The settings of every follower in OpenSearch."""

from pydantic import Field, SecretStr

from cdc.sinks.derived_settings import FedSettings


class ClusterSettings(FedSettings):
    kind: str
    """The kind of this follower."""
    url: str = Field(pattern=r"^https?://")
    """The cluster's address."""
    username: str | None = None
    """For basic authentication."""
    password: SecretStr | None = None
    """For basic authentication, by reference: `${env:NAME}` or `${file:path}`."""
    ca_file: str | None = None
    """File of the certificates to trust."""
    prefix: str = Field(default="", pattern=r"^([a-z][a-z0-9_-]{0,99})?$")
    """First part of every index's name; the pipeline's name where it is left out."""
    shards: int = Field(default=1, ge=1)
    """Primary shards of every index. It cannot be changed later."""
    replicas: int = Field(default=0, ge=0)
    """Replicas of every shard."""
    deletes_remembered_hours: int = Field(default=24, ge=1)
    """How long the index remembers the version of a deleted document (`index.gc_deletes`), in memory: longer than a
    writer that lost its lease can live on, or its late write would bring the document back."""
    bulk_documents: int = Field(default=1000, ge=1)
    """Most documents in one bulk request."""
    bulk_bytes: int = Field(default=5 * 1024 * 1024, ge=1024)
    """Most bytes in one bulk request."""
    bulk_retry_seconds: int = Field(default=120, ge=1)
    """How long a request that the cluster is too busy for is tried again."""
