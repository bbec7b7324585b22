"""The context in which every service starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc.local.state_dir import Home


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The state folder, the folder of downloads, the ports by name, the fetched files by the lock's part."""

    home: Home
    cache: Path
    ports: Mapping[str, int]
    files: Mapping[str, tuple[Path, ...]]

    def class_path(self, part: str) -> dict[str, str]:
        """The environment that puts the jars of `part` on Java's class path."""
        return {"CLASSPATH": ":".join(map(str, self.files[part]))}
