"""The locked artifacts: which file of which version, with its checksum."""

import functools
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cdc.core.errors import ConfigurationError, PreconditionError

LOCK_FILE: Final = Path(__file__).with_name("jars.lock.toml")
# names that machines have for themselves → those of the Postgres binaries in the registry
_MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file in the registry: group:name:version[:classifier]; `platform` is empty if it fits everywhere.

    `licenses` are the names in its POM, or the nearest parent's: each alone is enough, as Maven means several.
    """

    coordinate: str
    sha256: str
    size: int
    platform: str = ""
    licenses: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the file lies below a cache folder, as every Maven repository lays it out."""
        group, name, version, classifier = split(self.coordinate)
        suffix = f"-{classifier}" if classifier else ""
        return Path(*group.split("."), name, version, f"{name}-{version}{suffix}.jar")


def split(coordinate: str) -> tuple[str, str, str, str]:
    """Group, name, version and classifier (may be empty) of `coordinate`; ConfigurationError if it is none."""
    pieces = coordinate.split(":")
    if len(pieces) not in (3, 4) or not all(pieces):
        raise ConfigurationError(f"{coordinate!r} is no group:name:version[:classifier]", "correct jars.toml")
    group, name, version, *classifier = pieces
    return group, name, version, classifier[0] if classifier else ""


def parse(lock: str) -> Mapping[str, tuple[Artifact, ...]]:
    """Artifacts by part, from the text of a lock file; ConfigurationError if an entry is incomplete."""
    return {part: tuple(_artifact(part, entry) for entry in found) for part, found in tomllib.loads(lock).items()}


def _artifact(part: str, entry: Mapping[str, Any]) -> Artifact:
    try:
        split(entry["artifact"])
        return Artifact(
            entry["artifact"],
            entry["sha256"],
            entry["bytes"],
            entry.get("platform", ""),
            tuple(entry.get("licenses", ())),
        )
    except (KeyError, TypeError, AttributeError) as damage:
        raise ConfigurationError(
            f"an entry of {part} in {LOCK_FILE.name} lacks {damage}", "run python -m cdc.local.fetch.lock"
        ) from damage


@functools.cache
def _read_lock() -> Mapping[str, tuple[Artifact, ...]]:
    return parse(LOCK_FILE.read_text(encoding="utf-8"))


def platform_name(system: str = "", machine: str = "") -> str:
    """This machine (or the one named) in the lock's words, for instance linux-amd64."""
    machine = (machine or platform.machine()).lower()
    return f"{(system or platform.system()).lower()}-{_MACHINES.get(machine, machine)}"


def list_parts() -> tuple[str, ...]:
    """The parts that the lock has files for."""
    return tuple(_read_lock())


def locked() -> tuple[Artifact, ...]:
    """Every artifact of every part and platform, once each."""
    return tuple({artifact.coordinate: artifact for found in _read_lock().values() for artifact in found}.values())


def artifacts_for(part: str, here: str = "") -> tuple[Artifact, ...]:
    """The artifacts of `part` for this platform (or the one named `here`).

    ConfigurationError for a part that the lock does not know, PreconditionError where it has no
    artifact for the platform.
    """
    here = here or platform_name()
    if part not in _read_lock():
        raise ConfigurationError(f"{LOCK_FILE.name} has no part {part!r}", f"take one of {', '.join(_read_lock())}")
    fitting = tuple(artifact for artifact in _read_lock()[part] if artifact.platform in ("", here))
    if not fitting:
        raise PreconditionError(f"no {part} binaries are published for {here}", "use docker/ or a server of your own")
    return fitting
