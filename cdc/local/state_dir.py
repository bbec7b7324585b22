"""The one hidden folder that holds everything of the local parts: data, ports, passwords, logs."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.core.errors import ConfigurationError, PreconditionError

DEFAULT: Final = Path(".cdc")
# separators in class paths and in the lists of Kafka's property files, which know no escape
_UNSUITABLE: Final = frozenset(":,;\\\n$")


@dataclass(frozen=True, slots=True)
class Home:
    """The state folder at `path` (made absolute); ConfigurationError for a path the parts cannot take."""

    path: Path = DEFAULT

    def __post_init__(self) -> None:
        path = self.path.expanduser().absolute()
        if unsuitable := sorted(_UNSUITABLE & set(str(path))):
            raise ConfigurationError(
                f"the state folder {path} has {' '.join(map(repr, unsuitable))} in its path", "choose another folder"
            )
        object.__setattr__(self, "path", path)

    @property
    def local(self) -> Path:
        """The services' data: a folder for each service, ports and process records."""
        return self.path / "local"

    @property
    def secrets(self) -> Path:
        """Generated passwords, files of mode 0600."""
        return self.path / "secrets"

    @property
    def logs(self) -> Path:
        """One log a part."""
        return self.path / "logs"

    @property
    def ports_file(self) -> Path:
        """The ports chosen at the first start."""
        return self.local / "ports.json"

    @property
    def lock_file(self) -> Path:
        """Held while parts are started, stopped or wiped."""
        return self.local / "lock"

    def folder(self, part: str) -> Path:
        """The folder of `part`: its data and its generated settings."""
        return self.local / part

    def log(self, part: str) -> Path:
        """The log of `part`, everything that its process writes."""
        return self.logs / f"{part}.log"

    def record(self, part: str) -> Path:
        """The note of the process that runs `part`."""
        return self.local / "run" / f"{part}.json"

    def make(self) -> None:
        """Make the folders, for the owner only; PreconditionError if that is not possible."""
        try:
            for folder in (self.path, self.local, self.logs, self.local / "run"):
                _make_private(folder)
            if os.geteuid() == 0:
                # root's Postgres runs as another user, who passes through these two to its own folder
                for folder in (self.path, self.local):
                    folder.chmod(folder.stat().st_mode | 0o011)
            self.secrets.mkdir(mode=0o700, exist_ok=True)
        except OSError as failure:
            raise PreconditionError(
                f"cannot make the state folder {self.path}: {failure.strerror}", "choose a folder that you may write"
            ) from failure
        # mkdir accepts a folder that is there, also another user's, whose passwords nobody else can read
        if not os.access(self.secrets, os.R_OK | os.W_OK | os.X_OK):
            raise PreconditionError(
                f"the state folder {self.path} belongs to another user", "work as that user, or choose another folder"
            )


def _make_private(folder: Path) -> None:
    # another process may make it at the same time
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        # whatever the umask; a folder that was there keeps its owner's rights
        folder.chmod(0o700)
