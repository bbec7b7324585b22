"""The object store of a lake: what its login may do, by trying, and what its answers tell of the bucket's rules."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import httpx
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from cdc.core.errors import CdcError, PreconditionError
from cdc.https import tls_context
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.cloud_settings import split_path
from cdc.sinks.lake.layout import METADATA
from cdc.sinks.lake.settings import StoreSettings
from cdc.sinks.lake.storage.clients import Bucket, connect
from cdc.sinks.lake.storage.store_errors import translate_errors

_EXPIRY: Final = ("x-amz-expiration", "x-goog-expiration")
"""Headers by which a store tells when a rule of the bucket will delete this very object."""
_VERSION: Final = ("x-amz-version-id", "x-ms-version-id")
_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What was found below the lake's path.

    `refused`: the rights that the login lacks, each with the store's answer. `heeds`: puts if absent; None where
    nothing could be written. `expiry`: when, and by which rule, an object goes that was written now. `is_versioned`:
    is a deleted object kept; None where no answer could be had.
    """

    path: str
    block: str
    refused: Mapping[str, CdcError] = field(default_factory=dict)
    heeds: bool | None = True
    expiry: str = ""
    is_versioned: bool | None = False


def read_store(pipeline: Pipeline) -> StoreFacts | None:
    """Write an object beside the lake's metadata, read it, look at its headers, delete it; None for a folder.

    Raises UnreachableError when the store does not answer, PreconditionError when there is no such bucket.
    """
    lake = pipeline.lake
    return None if lake.access is None else try_store(lake.path, lake.access)


def try_store(path: str, access: StoreSettings) -> StoreFacts:
    """The same of a lake's path."""
    return _Probe(path, access).run()


class _Probe:
    def __init__(self, path: str, access: StoreSettings) -> None:
        bucket, self._prefix = split_path(path)
        self._path, self._access = path, access
        self._store: Bucket = connect(bucket, access)
        self._key = f"{self._prefix}/{METADATA}/.probe-{uuid.uuid4()}".lstrip("/")
        self._refused: dict[str, CdcError] = {}

    def run(self) -> StoreFacts:
        self._try("list", lambda: obstore.list_with_delimiter(self._store, self._prefix or None))
        heeds, headers = None, None
        if self._try("write", lambda: obstore.put(self._store, self._key, b"first", mode="create")):
            heeds = self._heeds()
            self._try("read", lambda: obstore.get(self._store, self._key).bytes())
            headers = self._ask_headers()
            self._try("delete", lambda: obstore.delete(self._store, [self._key]))
        return StoreFacts(
            self._path,
            self._access.block,
            self._refused,
            heeds,
            next((headers[name] for name in _EXPIRY if name in headers), "") if headers else "",
            None if headers is None else any(headers.get(name, "null") != "null" for name in _VERSION),
        )

    def _try(self, right: str, ask: Callable[[], object]) -> bool:
        """Whether the store does it; what it refuses is kept. Raises UnreachableError."""
        try:
            with translate_errors(self._path, self._access):
                ask()
        except PreconditionError as error:
            self._refused[right] = error
        return right not in self._refused

    def _heeds(self) -> bool:
        try:
            with translate_errors(self._path, self._access):
                try:
                    obstore.put(self._store, self._key, b"second", mode="create")
                except AlreadyExistsError:
                    return True
        except PreconditionError as error:
            self._refused["put if absent"] = error
        return False

    def _ask_headers(self) -> httpx.Headers | None:
        """The headers of the object's answer, by a signed address; None where this login cannot sign."""
        try:
            address = obstore.sign(self._store, "GET", self._key, timedelta(minutes=1))
            answer = httpx.get(address, timeout=_SECONDS, verify=tls_context())
        except (BaseError, httpx.HTTPError):
            return None
        return answer.headers if answer.is_success else None
