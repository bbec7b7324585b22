"""This machine: what a process may open, memory, clocks' data, Java, packages, and where the lake and the state lie."""

import os
import resource
import shutil
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

from cdc.core.errors import CdcError
from cdc.local.fetch.artifacts import artifacts_for
from cdc.local.fetch.cache import cache_folder
from cdc.local.servers.java import find_java
from cdc.run.pipeline import Pipeline

PACKAGES: Final = ("pyspark", "delta-spark")
_ZONE: Final = "America/New_York"


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """A folder, or the nearest one above it that is there. `file_system`: its type; `inodes`: the part that is free."""

    path: str
    is_writable: bool = True
    free_bytes: int = 0
    total_bytes: int = 0
    free_inodes: float = 1.0
    file_system: str = ""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`java_error`: why no Java is good enough. `packages`: installed versions. `lacking_jars`: those to be fetched."""

    open_files: int
    memory_bytes: int
    has_zones: bool
    state: FolderFacts
    lake: FolderFacts | None
    java_error: CdcError | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    lacking_jars: tuple[str, ...] = ()


def read_machine(pipeline: Pipeline) -> MachineFacts:
    """Look at this machine."""
    lake = pipeline.settings.delta[1]
    return MachineFacts(
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        psutil.virtual_memory().available,
        _has_zones(),
        read_folder(pipeline.state),
        None if lake.access else read_folder(Path(lake.path)),
        _find_java_error(),
        {name: found for name in PACKAGES if (found := _find_version(name))},
        tuple(_find_lacking_jars()),
    )


def read_folder(path: Path) -> FolderFacts:
    """Look at a folder, or at the nearest one above it."""
    there = next(found for found in (path, *path.absolute().parents) if found.exists())
    space, of_system = shutil.disk_usage(there), os.statvfs(there)
    inodes = of_system.f_favail / of_system.f_files if of_system.f_files else 1.0
    may_write = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return FolderFacts(str(path), may_write, space.free, space.total, inodes, _find_file_system(there))


def _find_file_system(path: Path) -> str:
    real = str(path.resolve())
    mounts = [part for part in psutil.disk_partitions(all=True) if Path(real).is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else ""


def _has_zones() -> bool:
    try:
        zoneinfo.ZoneInfo(_ZONE)
    except zoneinfo.ZoneInfoNotFoundError:
        return False
    return True


def _find_java_error() -> CdcError | None:
    try:
        find_java()
    except CdcError as error:
        return error
    return None


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _find_lacking_jars() -> list[str]:
    """The jars of Spark that are not there in their size; their bytes are compared when Spark starts."""
    folder = cache_folder() / "jars"
    return [
        artifact.path.name
        for artifact in artifacts_for("spark")
        if not (folder / artifact.path).exists() or (folder / artifact.path).stat().st_size != artifact.size
    ]
