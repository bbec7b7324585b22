"""A lake's settings in `cdc.yaml`."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from cdc.core.errors import ConfigurationError
from cdc.core.settings import Settings, finding_error
from cdc.sinks.lake.pace import PaceLimits

SCHEME: Final = "s3://"
_ANY_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_BUCKET: Final = re.compile(r"s3://[^/\s]+(/[^/]+)*/?")
_FIRST_REGION: Final = "us-east-1"
_OPEN_LINE: Final = "is not encrypted: name an https:// one, or set allow_http: true where the network is yours"


class S3Settings(Settings):
    """Access to an object store. Defaults follow Amazon's own clients."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """The store's address; left out, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's of the region."""
    region: str | None = Field(default=None, min_length=1)
    """Left out, AWS_REGION or AWS_DEFAULT_REGION, else us-east-1."""
    access_key_id: SecretStr | None = Field(default=None, min_length=1)
    """Left out, credentials come from the environment, a web identity, the container or the machine, in this order."""
    secret_access_key: SecretStr | None = Field(default=None, min_length=1)
    """By reference: `${env:NAME}` or `${file:path}`."""
    session_token: SecretStr | None = None
    """By reference, for keys that are temporary. They are not renewed: better leave all three out."""
    path_style: bool = False
    """Put the bucket into the path instead of the host: most stores other than Amazon's need it."""
    allow_http: bool = False
    """Let data, though not the secret key, go over the network in clear."""

    @field_validator("session_token", mode="before")
    @classmethod
    def _no_token(cls, token: Any) -> Any:
        """`${env:NAME:-}` is empty when the variable is unset."""
        return token or None

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        # half a pair of keys would silently mix with the environment's
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise finding_error((), "access_key_id and secret_access_key are given both or not at all")
        if self.session_token is not None and self.access_key_id is None:
            raise finding_error(("session_token",), "belongs to keys that are not given")
        if not self._is_allowed(self.endpoint):
            raise finding_error(("endpoint",), _OPEN_LINE)
        return self

    def complete(self, environ: Mapping[str, str] = os.environ) -> Self:
        """A copy with endpoint and region filled in, so that all clients on all machines agree.

        Raises ConfigurationError for an address from the environment that must not be used.
        """
        endpoint = self.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None
        if not self._is_allowed(endpoint):
            raise ConfigurationError(f"AWS_ENDPOINT_URL {endpoint} {_OPEN_LINE}")
        region = self.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _FIRST_REGION
        return self.model_copy(update={"endpoint": endpoint and endpoint.rstrip("/"), "region": region})

    def _is_allowed(self, endpoint: str | None) -> bool:
        return self.allow_http or not (endpoint or "").startswith("http://")


class DeltaSettings(Settings):
    """The settings of the lake, kind `delta`."""

    kind: Literal["delta"]
    """The kind of this follower."""
    path: str = Field(min_length=1)
    """The lake: a folder, or `s3://bucket/prefix`; a table lies at `<path>/<schema>/<table>`."""
    s3: S3Settings | None = None
    """How the object store is reached; left out, as Amazon's own clients do."""
    batch_changes: int = Field(default=200_000, ge=1)
    """A batch takes whole transactions until it holds this many changes."""
    small_run_changes: int = Field(default=20_000, ge=0)
    """A run of up to this many changes, and 256 MiB, is read and folded by the driver; a larger one is a Spark job."""
    retention_hours: float = Field(default=4, ge=0)
    """How many hours of a table's past and changes stay readable; longer if a follower needs it."""
    on_refusal: Literal["hold", "stop"] = "hold"
    """An unreadable message holds up its key (without a key: its table), or everything."""
    freshness_seconds: float | None = Field(default=None, ge=0, le=3600)
    """For how long a change may wait for others, with which it shares a commit, where commits cost far more than they
    bring; left out, 1.5 in a folder and 6.5 on an object store. 0: every change is committed as soon as may be."""
    parallel_tables: int = Field(default=8, ge=1)
    """So many tables are committed at a time: their disks' waits overlap."""

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.path.startswith(SCHEME):
            if not _BUCKET.fullmatch(self.path):
                raise finding_error(("path",), "is not s3://bucket/prefix")
        elif _ANY_SCHEME.match(self.path):
            raise finding_error(("path",), "is neither a folder nor s3://bucket/prefix")
        elif self.s3 is not None:
            raise finding_error(("s3",), "is for a path that begins with s3://")
        return self

    @property
    def pace_limits(self) -> PaceLimits:
        """The limits of the commit pace."""
        of = PaceLimits.of_object_store if self.path.startswith(SCHEME) else PaceLimits.of_folder
        return of(self.freshness_seconds)

    @property
    def access(self) -> S3Settings | None:
        """The object store's settings, complete; None for a folder."""
        return (self.s3 or S3Settings()).complete() if self.path.startswith(SCHEME) else None
