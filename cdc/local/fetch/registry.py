"""One artifact from the registry into the cache, whole and checked, or an error that names it."""

import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import stamina

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.https import REMEDY, distrust, tls_context
from cdc.local.fetch.artifacts import Artifact
from cdc.local.fetch.cache import open_folder
from cdc.progress import Advance, Progress

REGISTRY_VARIABLE: Final = "CDC_REGISTRY"
MAVEN_CENTRAL: Final = "https://repo.maven.apache.org/maven2"
_ATTEMPTS: Final = 4
_TIMEOUT: Final = 30.0
_BUSY: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.REQUEST_TIMEOUT)


class DamagedError(OSError):
    """The downloaded file does not match its locked checksum."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A Maven registry at `url`, and the cache folder that it is seen through; serves several threads."""

    url: str
    http: httpx.Client
    cache: Path
    progress: Progress
    advance: Advance
    _untold: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        """Its name for people: the address may hold a password."""
        return httpx.URL(self.url).netloc.decode()

    def report_retry(self) -> None:
        """Report a retry, once for all downloads together."""
        if self._untold.acquire(blocking=False):
            self.progress.step("registry", f"{self.host} does not answer as it should, trying again")


@contextmanager
def open_registry(cache: Path, progress: Progress, advance: Advance) -> Iterator[Registry]:
    """Open the registry for downloads; `advance` gets the bytes that arrive, negative when a download restarts."""
    with httpx.Client(verify=tls_context(), timeout=_TIMEOUT, follow_redirects=True) as http:
        yield Registry(address().rstrip("/"), http, cache, progress, advance)


def address() -> str:
    """The registry that CDC_REGISTRY names, or the public one."""
    return os.environ.get(REGISTRY_VARIABLE) or MAVEN_CENTRAL


def intact(path: Path, artifact: Artifact) -> bool:
    """Whether `path` holds exactly the locked bytes of `artifact`."""
    try:
        # the size first: a file that was cut off need not be read
        if path.stat().st_size != artifact.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except FileNotFoundError:
        return False


def download(artifact: Artifact, registry: Registry) -> Path:
    """Fetch `artifact` into the registry's cache and give its path, whatever was there before.

    UnreachableError after some attempts without the locked bytes, or where the registry's certificate is not
    believed; PreconditionError when the disk is full. Neither leaves a file.
    """
    path = registry.cache / artifact.path
    try:
        for attempt in stamina.retry_context(on=_worth_repeating, attempts=_ATTEMPTS, timeout=120):
            with attempt:
                if attempt.num > 1:
                    registry.report_retry()
                _attempt(artifact, registry, path)
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as failure:
        raise _to_cdc_error(artifact, registry, failure) from failure
    return path


def _to_cdc_error(artifact: Artifact, registry: Registry, failure: Exception) -> PreconditionError | UnreachableError:
    if isinstance(failure, DamagedError):
        return UnreachableError(
            f"{artifact.coordinate} arrived with another checksum than the locked one",
            "try again; if it stays so, the registry or a proxy before it changes files",
        )
    if isinstance(failure, OSError) and failure.errno == errno.ENOSPC:
        return PreconditionError(
            f"the disk that holds {registry.cache} is full while fetching {artifact.coordinate}",
            "free space, or set CDC_CACHE to a folder on another disk",
        )
    if why := distrust(failure):
        return UnreachableError(
            f"cannot fetch {artifact.coordinate}: the certificate of {registry.host} is not trusted ({why})", REMEDY
        )
    status = failure.response.status_code if isinstance(failure, httpx.HTTPStatusError) else None
    why = f"HTTP {status}" if status else type(failure).__name__
    return UnreachableError(
        f"cannot fetch {artifact.coordinate} from {registry.host} ({why})",
        f"check the network, or set {REGISTRY_VARIABLE} to a registry that can be reached; what came is kept",
    )


def _worth_repeating(failure: Exception) -> bool:
    if isinstance(failure, httpx.HTTPStatusError):
        return failure.response.is_server_error or failure.response.status_code in _BUSY
    # a certificate that is not trusted now is not trusted at the next try
    if isinstance(failure, httpx.TransportError):
        return distrust(failure) is None
    return isinstance(failure, DamagedError)


def _attempt(artifact: Artifact, registry: Registry, path: Path) -> None:
    """One download, written beside `path` and put there once it is whole."""
    open_folder(path.parent)
    partial = path.with_name(f"{path.name}.part")
    try:
        _receive(artifact, registry, partial)
        if not intact(partial, artifact):
            raise DamagedError(artifact.coordinate)
        # one cache may serve several users, whatever the umask
        partial.chmod(0o644)
        partial.replace(path)
    except BaseException:
        # Ctrl-C as well: half a file goes, and the bar goes back
        registry.advance(-partial.stat().st_size if partial.exists() else 0)
        partial.unlink(missing_ok=True)
        raise


def _receive(artifact: Artifact, registry: Registry, partial: Path) -> None:
    with (
        registry.http.stream("GET", f"{registry.url}/{artifact.path.as_posix()}") as answer,
        partial.open("wb") as file,
    ):
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            file.write(chunk)
            registry.advance(len(chunk))
