"""Asks whether the configuration file equals what runs: `cdc follow` tells in its reports what it has begun with."""

from collections.abc import Collection
from pathlib import Path

from cdc.config.file import load
from cdc.core.errors import CdcError, PreconditionError
from cdc.run.status.asking.facts import FileLook


class FileQuestion:
    """Asks about one file; for one thread. It is read again when it has changed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._digest: str | None = None
        self._error: CdcError | None = None
        self._state = ""

    def look(self, running: Collection[str]) -> FileLook:
        """Compare with the digests of the settings with which processes follow now."""
        if self._path is None:
            return FileLook()
        self._read(self._path)
        name = self._path.name
        if self._error is not None:
            return FileLook(name, self._state, self._error)
        if not running:
            return FileLook(name, "is followed by nobody here")
        if {*running} == {self._digest}:
            return FileLook(name, "equals what runs")
        changed = PreconditionError(
            f"{name} has changed since `cdc follow` began",
            "start `cdc follow` anew; `cdc plan` shows what is to be made",
        )
        return FileLook(name, "differs from what runs", changed)

    def _read(self, path: Path) -> None:
        try:
            found = path.stat()
            seen = found.st_mtime_ns, found.st_size
            if seen != self._seen:
                self._seen, self._error = seen, None
                self._digest = load(path).digest
        except OSError:
            self._seen, self._state = None, "cannot be read"
            self._error = PreconditionError(f"{path.name} cannot be read any more", "put it back")
        except CdcError:
            # a text of several lines
            self._state = "has errors"
            self._error = PreconditionError(f"{path.name} has errors", "`cdc config check` lists them")
