"""Jars and binaries of a part: from the cache if they are whole, else from the registry.

Nothing is resolved here: the lock names every file, so a second start needs no network.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from filelock import FileLock

from cdc.local.fetch.artifacts import Artifact, artifacts_for
from cdc.local.fetch.cache import cache_folder, open_folder
from cdc.local.fetch.registry import download, intact, open_registry
from cdc.progress import MEGABYTES, SILENT, Progress

_AT_ONCE: Final = 8


def fetch(part: str, cache: Path | None = None, progress: Progress = SILENT) -> tuple[Path, ...]:
    """The files of `part` (a table of jars.lock.toml), in the lock's order, each with its locked checksum.

    Missing and damaged files are fetched; two processes do not fetch the same at once. Raises
    UnreachableError naming the artifact, PreconditionError (disk full, folder not to be made, platform
    without binaries), ConfigurationError for an unknown part.
    """
    artifacts = artifacts_for(part)
    folder = open_folder((cache or cache_folder()) / "jars")
    if _missing(artifacts, folder):
        with FileLock(folder / ".lock"):
            # asked again under the lock: another process may have fetched them meanwhile
            _download(part, _missing(artifacts, folder), folder, progress)
    return tuple(folder / artifact.path for artifact in artifacts)


def spark_jars(progress: Progress = SILENT) -> tuple[Path, ...]:
    """The jars that Spark needs beside those in pyspark, for `spark.jars`; raises as `fetch` does."""
    return fetch("spark", progress=progress)


def _missing(artifacts: Sequence[Artifact], folder: Path) -> list[Artifact]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        whole = pool.map(lambda artifact: intact(folder / artifact.path, artifact), artifacts)
        return [artifact for artifact, is_whole in zip(artifacts, whole, strict=True) if not is_whole]


def _download(part: str, artifacts: Sequence[Artifact], folder: Path, progress: Progress) -> None:
    if not artifacts:
        return
    size = sum(artifact.size for artifact in artifacts)
    progress.step(part, f"fetching {MEGABYTES.show(size)} MB")
    bar = progress.bar(part, size, unit=MEGABYTES, waiting_for="")
    with bar as advance, open_registry(folder, progress, advance) as registry:
        # no context manager: it would fetch all the others before raising the first error
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            for done in [pool.submit(download, artifact, registry) for artifact in artifacts]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
