"""The clients of Google's and Azure's object stores."""

import os
from typing import TYPE_CHECKING, Final

from obstore.store import AzureStore, GCSStore

from cdc.core.errors import PreconditionError
from cdc.sinks.lake.cloud_settings import AzureSettings, GoogleSettings

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig

_FOREIGN: Final = tuple(
    f"GOOGLE_{name}" for name in ("SERVICE_ACCOUNT", "SERVICE_ACCOUNT_PATH", "SERVICE_ACCOUNT_KEY", "BEARER_TOKEN")
)
"""Variables with credentials that the client would take beside a given key."""


def connect_google(bucket: str, access: GoogleSettings, client: "ClientConfig", retries: "RetryConfig") -> GCSStore:
    """The client of a bucket at Google; put-if-absent is `x-goog-if-generation-match: 0`.

    Raises PreconditionError where a given key and the environment's credentials would mix.
    """
    return GCSStore(bucket, config=_google_config(access), client_options=client, retry_config=retries)


def connect_azure(container: str, access: AzureSettings, client: "ClientConfig", retries: "RetryConfig") -> AzureStore:
    """The client of a container at Azure; put-if-absent is `If-None-Match: *`.

    Given credentials are used alone: their type is named, so that none of the environment joins them.
    """
    return AzureStore(container, config=_azure_config(access), client_options=client, retry_config=retries)


def storage_options(access: GoogleSettings | AzureSettings) -> dict[str, str]:
    """The same for readers that take a mapping of texts, as delta-rs and polars do."""
    config = _google_config(access) if isinstance(access, GoogleSettings) else _azure_config(access)
    return {**{key: str(value) for key, value in config.items()}, "allow_http": str(access.allow_http).lower()}


def _google_config(access: GoogleSettings) -> "GCSConfig":
    config: GCSConfig = {"skip_signature": False}
    if access.endpoint:
        config["base_url"] = access.endpoint
    if access.service_account_key is not None:
        for name in _FOREIGN:
            if os.environ.get(name):
                raise PreconditionError(f"{name} is set, and gs.service_account_key, too", f"unset {name}")
        config["service_account_key"] = access.service_account_key.get_secret_value()
    return config


def _azure_config(access: AzureSettings) -> "AzureConfig":
    given: AzureConfig = {"account_name": access.account or "", "endpoint": access.endpoint or ""}
    return {**given, "skip_signature": False, **_credentials(access)}


def _credentials(access: AzureSettings) -> "AzureConfig":
    if access.account_key is not None:
        return {"account_key": access.account_key.get_secret_value(), "credential_type": "access_key"}
    if access.sas_token is not None:
        return {"sas_key": access.sas_token.get_secret_value(), "credential_type": "sas_token"}
    if access.client_secret is not None:
        return {
            "client_id": access.client_id or "",
            "tenant_id": access.tenant_id or "",
            "client_secret": access.client_secret.get_secret_value(),
            "credential_type": "client_secret",
        }
    if access.client_id is not None:
        return {"client_id": access.client_id, "credential_type": "managed_identity"}
    return {}
