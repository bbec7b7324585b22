"""The settings of a search index in `cdc.yaml`."""

from typing import Literal

from pydantic import Field, SecretStr

from sinks.derived_settings import FedSettings


class SearchSettings(FedSettings):
    kind: Literal["search"]
    url: str = Field(pattern=r"^https?://")
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None
    prefix: str = Field(default="", pattern=r"^([a-z][a-z0-9_-]{0,99})?$")
    """First part of every index's name; the pipeline's name where it is left out."""
    shards: int = Field(default=1, ge=1)
    replicas: int = Field(default=0, ge=0)
    deletes_remembered_hours: int = Field(default=24, ge=1)
    """How long the index remembers the version of a deleted document (`index.gc_deletes`), in memory: longer than a
    writer that lost its lease can live on, or its late write would bring the document back."""
    bulk_documents: int = Field(default=1000, ge=1)
    bulk_bytes: int = Field(default=5 * 1024 * 1024, ge=1024)
    bulk_retry_seconds: int = Field(default=120, ge=1)
    """How long a request that the cluster is too busy for is tried again."""
