"""The meaning of an object store's errors."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import BaseError, NotFoundError

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.sinks.lake.settings import StoreSettings

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_METADATA: Final = re.compile(r"/latest/(api|meta-data)/|/computeMetadata/|/metadata/identity/")
"""A cloud's instance metadata service: the last place where a client looks for credentials."""
_KEYS: Final = {
    "s3": "give s3.access_key_id and s3.secret_access_key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    " (profiles are not read)",
    "gs": "give gs.service_account_key, or set GOOGLE_APPLICATION_CREDENTIALS",
    "azure": "give azure.account_key, or set AZURE_STORAGE_ACCOUNT_KEY",
}
_REFUSING: Final = (401, 403)
# 409 and 412 come when two conditional writes meet: like the others, they ask for a retry
_BUSY: Final = (408, 409, 412, 429)
_NOT_IMPLEMENTED: Final = 501


@contextmanager
def translate_errors(root: str, access: StoreSettings, path: str = "") -> Iterator[None]:
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


def _to_cdc_error(text: str, error: Exception, place: str, access: StoreSettings) -> Exception:
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else ""
    if code in _NO_BUCKET:
        return PreconditionError(
            f"there is no bucket for {place} at {access.server}", "make it, or name another in the lake's path"
        )
    if isinstance(error, FileNotFoundError | NotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object", place)
    # the last source of credentials failed, so there are none
    if _METADATA.search(text):
        return PreconditionError(f"no credentials for {place}", _KEYS[access.block])
    return _status_error(status, f"{status or ''} {code}".strip(), text, place, access)


def _status_error(status: int | None, answer: str, text: str, place: str, access: StoreSettings) -> CdcError:
    if status in _REFUSING:
        return PreconditionError(
            f"{access.server} refuses {place} ({answer})", "check the keys, and what they may do in this bucket"
        )
    # no status: the request never got a response
    if status is None or status in _BUSY or (status >= 500 and status != _NOT_IMPLEMENTED):
        why = answer or text.rpartition(" - ")[2]
        return UnreachableError(
            f"the object store at {access.server} does not answer for {place} ({why})",
            f"is it running, and {access.block}.endpoint its address?",
        )
    return PreconditionError(f"{access.server} does not do what {place} needs ({answer})", "use another object store")
