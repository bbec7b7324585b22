"""One artifact from the registry into the cache, whole and checked, or an error that names it."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import stamina
from jgo.maven import MavenContext, PythonResolver

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.local.fetch.artifacts import Artifact, split
from cdc.local.progress import Progress

REGISTRY_VARIABLE: Final = "CDC_REGISTRY"


class DamagedError(OSError):
    """What arrived is not what was locked."""


def intact(path: Path, artifact: Artifact) -> bool:
    """Whether `path` holds exactly the locked bytes of `artifact`."""
    try:
        if path.stat().st_size != artifact.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except FileNotFoundError:
        return False


def context(cache: Path, progress: Progress) -> MavenContext:
    """The registry, seen through the cache folder `cache`; CDC_REGISTRY names another one than the public."""

    @contextmanager
    def callback(_filename: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield progress.received

    mirror = os.environ.get(REGISTRY_VARIABLE)
    return MavenContext(
        resolver=PythonResolver(progress_callback=callback),
        repo_cache=cache,
        remote_repos={"registry": mirror.rstrip("/")} if mirror else None,
        timeout=30,
    )


def download(artifact: Artifact, registry: MavenContext, progress: Progress) -> Path:
    """Fetch `artifact` into the registry's cache and give its path.

    A file that is there already is taken for damaged and fetched again. UnreachableError after some
    attempts without the locked bytes, PreconditionError when the disk is full; neither leaves a file.
    """
    path = registry.repo_cache / artifact.path
    try:
        _attempt(artifact, registry, path, progress)
    except DamagedError as failure:
        raise UnreachableError(
            f"{artifact.coordinate} arrived with another checksum than the locked one",
            "try again; if it stays so, the registry or a proxy before it changes files",
        ) from failure
    except (OSError, RuntimeError) as failure:
        if isinstance(failure, OSError) and failure.errno == errno.ENOSPC:
            raise PreconditionError(
                f"the disk that holds {registry.repo_cache} is full while fetching {artifact.coordinate}",
                "free space, or set CDC_CACHE to a folder on another disk",
            ) from failure
        raise UnreachableError(
            f"cannot fetch {artifact.coordinate} ({type(failure).__name__})",
            f"check the network, or set {REGISTRY_VARIABLE} to a registry that can be reached; what came is kept",
        ) from failure
    return path


def _worth_repeating(failure: Exception) -> bool:
    return isinstance(failure, OSError) and failure.errno != errno.ENOSPC


@stamina.retry(on=_worth_repeating, attempts=4, timeout=120)
def _attempt(artifact: Artifact, registry: MavenContext, path: Path, progress: Progress) -> None:
    group, name, version, classifier = split(artifact.coordinate)
    # jgo writes straight to the final path, so what a killed download left would pass for the artifact
    path.unlink(missing_ok=True)
    try:
        registry.project(group, name).at_version(version).artifact(classifier).resolve()
        if not intact(path, artifact):
            raise DamagedError(artifact.coordinate)
    except BaseException:
        progress.received(-_size(path))
        path.unlink(missing_ok=True)
        raise


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
