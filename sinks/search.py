"""The search follower."""

from typing import Literal

from pydantic import Field, SecretStr

from cdc.core.settings import Settings


class SearchSettings(Settings):
    kind: Literal["search"]
    url: str = Field(pattern=r"^https?://")
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None
    prefix: str = ""
    """First part of every index's name; the pipeline's name where it is left out."""
    shards: int = Field(default=1, ge=1)
    replicas: int = Field(default=0, ge=0)
    bulk_documents: int = Field(default=1000, ge=1)
    bulk_bytes: int = Field(default=5 * 1024 * 1024, ge=1024)
