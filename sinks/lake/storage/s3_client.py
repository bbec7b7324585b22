"""The client of a store that speaks S3."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from obstore.store import S3Store

from cdc.sinks.lake.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential


def connect_s3(bucket: str, access: S3Settings, client: "ClientConfig", retries: "RetryConfig") -> S3Store:
    """The client of a bucket.

    Explicit settings win over the AWS_* variables, which the client also reads.
    """
    config: S3Config = {
        "region": access.region or "",
        "virtual_hosted_style_request": not access.path_style,
        # put-if-absent as `If-None-Match: *`
        "conditional_put": "etag",
        "skip_signature": False,
    }
    if endpoint := address(bucket, access):
        # both keys: otherwise AWS_ENDPOINT_URL_S3 of the environment would win
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    return S3Store(
        bucket, config=config, client_options=client, retry_config=retries, credential_provider=_credentials(access)
    )


def address(bucket: str, access: S3Settings) -> str | None:
    """The address for requests, with the bucket in the host unless `path_style`; None for Amazon's own."""
    if access.endpoint is None or access.path_style:
        return access.endpoint
    scheme, _, host = access.endpoint.partition("://")
    return f"{scheme}://{bucket}.{host}"


def _credentials(access: S3Settings) -> "Callable[[], S3Credential] | None":
    """Use the given keys alone: a session token from the environment must not join keys from the settings."""
    if access.access_key_id is None or access.secret_access_key is None:
        return None
    credential: S3Credential = {
        "access_key_id": access.access_key_id.get_secret_value(),
        "secret_access_key": access.secret_access_key.get_secret_value(),
        "token": access.session_token.get_secret_value() if access.session_token else None,
        "expires_at": None,
    }
    return lambda: credential
