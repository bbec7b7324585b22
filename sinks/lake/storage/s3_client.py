"""The client of an object store, and the meaning of the store's errors."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.sinks.lake.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

RETRIES: "Final[RetryConfig]" = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 120
"""Limit for a whole response, the content of a large object included."""

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_METADATA: Final = re.compile(r"/latest/(api|meta-data)/")
"""Amazon's instance metadata service: the last place where a client looks for credentials."""
_REFUSING: Final = (401, 403)
# 409 and 412 come when two conditional writes meet: like the others, they ask for a retry
_BUSY: Final = (408, 409, 412, 429)
_NOT_IMPLEMENTED: Final = 501


@cache
def connect(bucket: str, access: S3Settings) -> S3Store:
    """Connect to a bucket: one client per process, which keeps its connections open.

    Explicit settings win over the AWS_* variables, which the client also reads.
    """
    client: ClientConfig = {
        "allow_http": access.allow_http,
        "timeout": f"{REQUEST_SECONDS}s",
        "connect_timeout": f"{CONNECT_SECONDS}s",
    }
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
        bucket, config=config, client_options=client, retry_config=RETRIES, credential_provider=_credentials(access)
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


@contextmanager
def translate_errors(root: str, access: S3Settings, path: str = "") -> Iterator[None]:
    """Raise the store's errors as FileNotFoundError or as a `CdcError` of one line.

    Raises UnreachableError when a retry may help, else PreconditionError.
    """
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        # already translated: these contexts nest
        if getattr(error, "filename", None):
            raise
        # below an empty line, obstore shows Rust's values of the error
        raise _to_cdc_error(str(error).partition("\n\n")[0], error, f"{root}/{path}".rstrip("/"), access) from None


def _to_cdc_error(text: str, error: Exception, place: str, access: S3Settings) -> Exception:
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else ""
    if code == "NoSuchBucket":
        return PreconditionError(
            f"there is no bucket for {place} at {_server(access)}", "make it, or name another in the lake's path"
        )
    if isinstance(error, FileNotFoundError | NotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object", place)
    # the last source of credentials failed, so there are none
    if _METADATA.search(text):
        return PreconditionError(
            f"no credentials for {place}",
            "give s3.access_key_id and s3.secret_access_key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            " (profiles are not read)",
        )
    return _status_error(status, f"{status or ''} {code}".strip(), text, place, access)


def _status_error(status: int | None, answer: str, text: str, place: str, access: S3Settings) -> CdcError:
    if status in _REFUSING:
        return PreconditionError(
            f"{_server(access)} refuses {place} ({answer})", "check the keys, and what they may do in this bucket"
        )
    # no status: the request never got a response
    if status is None or status in _BUSY or (status >= 500 and status != _NOT_IMPLEMENTED):
        why = answer or text.rpartition(" - ")[2]
        return UnreachableError(
            f"the object store at {_server(access)} does not answer for {place} ({why})",
            "is it running, and s3.endpoint its address?",
        )
    return PreconditionError(f"{_server(access)} does not do what {place} needs ({answer})", "use another object store")


def _server(access: S3Settings) -> str:
    return access.endpoint or f"Amazon S3 in {access.region}"
