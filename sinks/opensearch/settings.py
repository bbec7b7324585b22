"""The settings of every follower in OpenSearch."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from cdc.core.settings import Settings, findings_error
from cdc.http_access import find_wrong_access
from cdc.sinks.derived_settings import FedSettings


class AwsSettings(Settings):
    """Requests signed for Amazon's OpenSearch (SigV4); needs the extra `aws`."""

    region: str = Field(min_length=1)
    """The domain's region."""
    service: Literal["es", "aoss"] = "es"
    """`es` for a domain, `aoss` for a serverless collection."""
    access_key_id: SecretStr | None = None
    """By reference; without it, botocore finds the credentials: environment, profile, web identity, the machine's."""
    secret_access_key: SecretStr | None = None
    """By reference."""
    session_token: SecretStr | None = None
    """By reference, for credentials that end."""


class ClusterSettings(FedSettings):
    kind: str
    """The kind of this follower."""
    url: str = Field(pattern=r"^https?://")
    """The cluster's address."""
    username: str | None = None
    """For basic authentication."""
    password: SecretStr | None = None
    """For basic authentication, by reference: `${env:NAME}`, `${file:path}` or `${exec:command}`."""
    api_key: SecretStr | None = None
    """An API key as the cluster gave it out (`Authorization: ApiKey …`), by reference."""
    aws: AwsSettings | None = None
    """Signs requests for Amazon's OpenSearch."""
    ca_file: str | None = None
    """File of the certificates to trust, as PEM. Spark's workers need it, and both files below, at the same path."""
    certificate_file: str | None = None
    """File of the client's certificate, as PEM, where the cluster asks for one."""
    key_file: str | None = None
    """File of the certificate's private key, as PEM without a password."""
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

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        found = list(find_wrong_access(self.__dict__))
        given = [name for name in ("username", "api_key", "aws") if getattr(self, name) is not None]
        found += [((name,), f"is a second login, beside {given[0]}") for name in given[1:]]
        if self.aws and (self.aws.access_key_id is None) != (self.aws.secret_access_key is None):
            found.append((("aws",), "access_key_id and secret_access_key go together"))
        if found:
            raise findings_error(found)
        return self
