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

    def look(self, running: Collection[str]) -> FileLook:
        """Compare with the digests of the settings with which processes follow now."""
        if self._path is None:
            return FileLook()
        self._read(self._path)
        name = self._path.name
        if self._error is not None:
            told = PreconditionError(f"{name} cannot be used as it is", "`cdc config check` lists its errors")
            return FileLook(name, "has errors", told)
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
            self._seen, self._error = None, PreconditionError(f"{path.name} is gone", "put it back")
        except CdcError as error:
            self._error = error
