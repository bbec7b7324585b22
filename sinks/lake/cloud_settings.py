"""How a lake's object store at Google and Azure is reached, in `cdc.yaml`."""

import json
import os
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import ClassVar, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from cdc.core.errors import ConfigurationError
from cdc.core.settings import Settings, finding_error

OPEN_LINE: Final = "is not encrypted: name an https:// one, or set allow_http: true where the network is yours"
ABFSS: Final = re.compile(r"abfss://(?P<container>[^@/\s]+)@(?P<account>[^./@\s]+)\.dfs\.(?P<domain>[^/:\s]+)(/.*)?")
"""A path as Hadoop spells it: the account's host is in it."""
_AZURE_DOMAIN: Final = "core.windows.net"


def split_path(path: str) -> tuple[str, str]:
    """Bucket or container, and prefix, of `s3://bucket/prefix` or `abfss://container@host/prefix`, say."""
    bucket, _, prefix = path.partition("://")[2].partition("/")
    return bucket.partition("@")[0], prefix.strip("/")


class StoreBase(Settings):
    """What every object store may be told.

    `scheme`: of paths; `block`: the name of its block; `title`: its name in sentences.
    """

    scheme: ClassVar[str]
    block: ClassVar[str]
    title: ClassVar[str]
    endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """The store's address; left out, what the environment names, else the cloud's own."""
    allow_http: bool = False
    """Let data, though not the secret key, go over the network in clear."""

    @model_validator(mode="after")
    def _check_line(self) -> Self:
        if not self.is_allowed(self.endpoint):
            raise finding_error(("endpoint",), OPEN_LINE)
        return self

    def is_allowed(self, endpoint: str | None) -> bool:
        """Is this address encrypted, or may it be open?"""
        return self.allow_http or not (endpoint or "").startswith("http://")

    def find_endpoint(self, environ: Mapping[str, str], *names: str) -> str | None:
        """The address of the settings, or of the first variable that is set.

        Raises ConfigurationError for an address from the environment that must not be used.
        """
        endpoint = self.endpoint or next((found for name in names if (found := environ.get(name))), None)
        if not self.is_allowed(endpoint):
            raise ConfigurationError(f"{names[-1]} {endpoint} {OPEN_LINE}")
        return endpoint and endpoint.rstrip("/")

    @property
    def server(self) -> str:
        """Its name in an error."""
        return self.endpoint or self.title


class GoogleSettings(StoreBase):
    """Access to Google Cloud Storage. Defaults follow Google's own clients."""

    scheme: ClassVar[str] = "gs://"
    block: ClassVar[str] = "gs"
    title: ClassVar[str] = "Google Cloud Storage"
    service_account_key: SecretStr | None = Field(default=None, min_length=1)
    """A service account's key, as the JSON of its file, by reference: `${file:path}`. Left out, credentials come from
    GOOGLE_APPLICATION_CREDENTIALS, the user's own login, or the machine (a workload identity on GKE, too)."""

    @field_validator("service_account_key")
    @classmethod
    def _check_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not _is_service_account(key.get_secret_value()):
            raise finding_error((), "is not the JSON of a service account's key")
        return key

    def complete(self, environ: Mapping[str, str] = os.environ) -> Self:
        """A copy with its endpoint filled in, so that all clients on all machines agree; raises ConfigurationError."""
        return self.model_copy(update={"endpoint": self.find_endpoint(environ, "GOOGLE_BASE_URL")})


class AzureSettings(StoreBase):
    """Access to Azure's Blob Storage. Defaults follow Azure's own clients."""

    scheme: ClassVar[str] = "az://"
    block: ClassVar[str] = "azure"
    title: ClassVar[str] = "Azure Blob Storage"
    account: str | None = Field(default=None, min_length=1)
    """The storage account; left out, the one in an `abfss://` path, else AZURE_STORAGE_ACCOUNT_NAME."""
    account_key: SecretStr | None = Field(default=None, min_length=1)
    """By reference: `${env:NAME}` or `${file:path}`. Left out with the others, credentials come from the environment, a
    workload identity (AZURE_FEDERATED_TOKEN_FILE), or the machine's managed identity, in this order."""
    sas_token: SecretStr | None = Field(default=None, min_length=1)
    """A shared access signature instead of the account's key, by reference. It is not renewed."""
    tenant_id: str | None = Field(default=None, min_length=1)
    """The tenant of a service principal."""
    client_id: str | None = Field(default=None, min_length=1)
    """A service principal; alone, the managed identity that a user assigned."""
    client_secret: SecretStr | None = Field(default=None, min_length=1)
    """The service principal's secret, by reference."""

    @field_validator("account_key")
    @classmethod
    def _check_key(cls, key: SecretStr | None) -> SecretStr | None:
        try:
            b64decode(key.get_secret_value() if key else "", validate=True)
        except ValueError:
            raise finding_error((), "is no key of a storage account, which is base64") from None
        return key

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if sum(each is not None for each in (self.account_key, self.sas_token, self.client_id)) > 1:
            raise finding_error((), "account_key, sas_token and client_id are given one at most")
        if (self.client_secret is None) != (self.tenant_id is None) or (self.client_secret and not self.client_id):
            raise finding_error((), "client_id, client_secret and tenant_id are given all three, or client_id alone")
        return self

    def complete(self, environ: Mapping[str, str] = os.environ, path: str = "") -> Self:
        """A copy with account and endpoint filled in, so that all clients on all machines agree.

        Raises ConfigurationError where no account is named, and for an address that must not be used.
        """
        there = ABFSS.fullmatch(path)
        account = self.account or (there and there["account"]) or environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        if not account:
            raise ConfigurationError(f"no storage account is named for {path}", "set azure.account")
        given = self.find_endpoint(environ, "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
        own = f"https://{account}.blob.{there['domain'] if there else _AZURE_DOMAIN}"
        return self.model_copy(update={"account": account, "endpoint": given or own})


def _is_service_account(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and {"client_email", "private_key"} <= found.keys()
