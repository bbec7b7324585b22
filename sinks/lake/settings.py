"""A lake's settings in `cdc.yaml`."""

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from cdc.core.settings import Settings, finding_error
from cdc.sinks.lake.cloud_settings import ABFSS, AzureSettings, GoogleSettings, StoreBase
from cdc.sinks.lake.pace import PaceLimits

SCHEME: Final = "s3://"
_ANY_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_BUCKET: Final = re.compile(r"(s3|gs|az)://[^/@\s]+(/[^/]+)*/?")
_FORMS: Final = {
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "az": "az://container/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
}
_BLOCKS: Final = {"s3": ("s3",), "gs": ("gs",), "azure": ("az", "abfss")}
"""Blocks of settings, and the schemes of the paths that they are for."""
_FIRST_REGION: Final = "us-east-1"


class S3Settings(StoreBase):
    """Access to a store that speaks S3. Defaults follow Amazon's own clients."""

    scheme: ClassVar[str] = SCHEME
    block: ClassVar[str] = "s3"
    title: ClassVar[str] = "Amazon S3"
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
        return self

    def complete(self, environ: Mapping[str, str] = os.environ) -> Self:
        """A copy with endpoint and region filled in, so that all clients on all machines agree.

        Raises ConfigurationError for an address from the environment that must not be used.
        """
        endpoint = self.find_endpoint(environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = self.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _FIRST_REGION
        return self.model_copy(update={"endpoint": endpoint, "region": region})

    @property
    def server(self) -> str:
        return self.endpoint or f"{self.title} in {self.region}"


StoreSettings = S3Settings | GoogleSettings | AzureSettings
"""How an object store is reached."""


class DeltaSettings(Settings):
    """The settings of the lake, kind `delta`."""

    kind: Literal["delta"]
    """The kind of this follower."""
    path: str = Field(min_length=1)
    """The lake: a folder, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, or
    `abfss://container@account.dfs.core.windows.net/prefix`; a table lies at `<path>/<schema>/<table>`."""
    s3: S3Settings | None = None
    """How a store is reached that speaks S3; left out, as Amazon's own clients do."""
    gs: GoogleSettings | None = None
    """How Google's store is reached; left out, as Google's own clients do."""
    azure: AzureSettings | None = None
    """How Azure's store is reached; left out, as Azure's own clients do."""
    batch_changes: int = Field(default=200_000, ge=1)
    """A batch takes whole transactions until it holds this many changes, or as many as the lake takes in 10 seconds."""
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
        if self.scheme and not (_BUCKET.fullmatch(self.path) or ABFSS.fullmatch(self.path)):
            raise finding_error(("path",), f"is not {_FORMS[self.scheme]}")
        if not self.scheme and _ANY_SCHEME.match(self.path):
            raise finding_error(("path",), f"is neither a folder nor {', '.join(_FORMS.values())}")
        for block, schemes in _BLOCKS.items():
            if getattr(self, block) is not None and self.scheme not in schemes:
                ways = " or ".join(f"{scheme}://" for scheme in schemes)
                raise finding_error((block,), f"is for a path that begins with {ways}")
        return self

    @property
    def scheme(self) -> str:
        """The scheme of the path to an object store; empty for a folder."""
        scheme, colon, _ = self.path.partition("://")
        return scheme if colon and scheme in _FORMS else ""

    @property
    def pace_limits(self) -> PaceLimits:
        """The limits of the commit pace."""
        of = PaceLimits.of_object_store if self.scheme else PaceLimits.of_folder
        return of(self.freshness_seconds)

    @property
    def access(self) -> StoreSettings | None:
        """The object store's settings, complete; None for a folder. Raises ConfigurationError."""
        match self.scheme:
            case "":
                return None
            case "s3":
                return (self.s3 or S3Settings()).complete()
            case "gs":
                return (self.gs or GoogleSettings()).complete()
            case _:
                return (self.azure or AzureSettings()).complete(path=self.path)
