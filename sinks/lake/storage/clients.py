"""The client of an object store."""

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from cdc.core.errors import PreconditionError
from cdc.sinks.lake.cloud_settings import AzureSettings, GoogleSettings
from cdc.sinks.lake.settings import StoreSettings
from cdc.sinks.lake.storage.cloud_clients import connect_azure, connect_google
from cdc.sinks.lake.storage.s3_client import connect_s3

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

RETRIES: "Final[RetryConfig]" = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 120
"""Limit for a whole response, the content of a large object included."""

Bucket = S3Store | GCSStore | AzureStore
"""A client, open for one bucket or container."""


@cache
def connect(bucket: str, access: StoreSettings) -> Bucket:
    """Connect to a bucket: one client per process, which keeps its connections open.

    Raises PreconditionError for settings that its environment contradicts.
    """
    client: ClientConfig = {
        "allow_http": access.allow_http,
        "timeout": f"{REQUEST_SECONDS}s",
        "connect_timeout": f"{CONNECT_SECONDS}s",
    }
    try:
        match access:
            case GoogleSettings():
                return connect_google(bucket, access, client, RETRIES)
            case AzureSettings():
                return connect_azure(bucket, access, client, RETRIES)
            case _:
                return connect_s3(bucket, access, client, RETRIES)
    except BaseError:
        # its text may have parts of a key
        raise PreconditionError(
            f"the settings and the environment make no client of {access.title}", "check its keys, and files of keys"
        ) from None
