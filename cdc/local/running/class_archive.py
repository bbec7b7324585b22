"""Archives of the classes that a Java program has loaded: reading them again takes half of the time of a start.

They are dynamic archives (JEP 350), written once, when a program ends or on demand. Java itself checks its version and
the class path, and starts without the archive if they differ.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

FOLDER: Final = "classes"
"""In the folder of downloads."""
# without this, Java writes messages about archives to stdout, which is the user's
_QUIET: Final = ("-Xlog:disable", "-XX:+IgnoreUnrecognizedVMOptions")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one class path, at `path`; `own` is where this process writes it."""

    path: Path
    own: Path

    @classmethod
    def of(cls, java: Path, class_path: Iterable[str], folder: Path) -> "ClassArchive":
        """The archive in `folder` for a `java` program and a class path; its name is a fingerprint of both."""
        # by sizes and times of the files, as Java itself compares them; none of them is read
        files = [java.resolve(), *map(Path, class_path)]
        seen = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        name = hashlib.sha256(repr(seen).encode()).hexdigest()[:24]
        # the process's own file: two that end at once would write into one
        return cls(folder / f"{name}.jsa", folder / f"{name}.{os.getpid()}.new")

    @property
    def is_there(self) -> bool:
        return self.path.exists()

    def options(self) -> list[str]:
        """Java's options: read the archive, or write it at the end (JEP 350); an older Java ignores them."""
        return [*(self._read() or [f"-XX:ArchiveClassesAtExit={self.own}"]), *_QUIET]

    def options_on_demand(self) -> list[str]:
        """Java's options: read the archive, or be ready to write it on demand."""
        return [*(self._read() or ["-XX:+RecordDynamicDumpInfo"]), *_QUIET]

    def _read(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self.path}"] if self.is_there else []

    def keep(self) -> None:
        """Give the whole archive its name, and remove unfinished ones of processes that are gone."""
        # renamed when it is whole: programs that start meanwhile see the old archive, or none
        with suppress(FileNotFoundError):
            # one cache may serve several users, whatever the umask
            self.own.chmod(0o644)
            self.own.rename(self.path)
        for file in self.path.parent.glob("*.new"):
            if not psutil.pid_exists(int(file.stem.rpartition(".")[2])):
                file.unlink(missing_ok=True)
