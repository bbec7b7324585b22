"""Where a lake's bytes are: a folder or an object store, with the one thing that commits need: put if absent."""

import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from sinks.lake.settings import S3Settings

READS_AT_ONCE: Final = 16

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Storage(Protocol):
    """Whole files by their path below one root; `/` parts folders. What a call has written is there after a crash.

    It travels to Spark's tasks, whole: what it needs to be reached is in it.
    """

    @property
    def vectors_in_log_bytes(self) -> int:
        """A commit's vectors of up to so many bytes stand in the log itself, which saves a file."""

    def make(self) -> None:
        """Make the root, where that is something to be made; raises PreconditionError where no table could be kept."""

    def read(self, path: str) -> bytes:
        """All of a file; raises FileNotFoundError."""

    def open(self, path: str) -> pa.NativeFile:
        """A file to be read in parts; raises FileNotFoundError."""

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Put a file, over whatever has that path."""

    def writing(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A file to be written in parts, of which few are in memory at a time.

        It is there, whole, when the context ends; where it ends by an error there is none.
        """

    def create(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        """Put a file unless one has that path, and say whether it was put: of two writers, one hears False.

        Raises FileNotFoundError when the file `behind` is gone or does not hold these bytes, or the root is gone. No
        two files may have the same content.
        """

    def uri(self) -> str:
        """The root as delta-rs and Spark name it."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; none when there is no such folder."""

    def written(self, folder: str) -> dict[str, int]:
        """The paths of the files in a folder, hidden ones too, and when they were written, in ms since 1970."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those that are gone already are no failure."""


def storage_at(root: str, access: S3Settings | None) -> Storage:
    """The files below a folder; or below `s3://bucket/prefix`, where there is a way to reach it."""
    if access is None:
        return Folder(root)
    from sinks.lake.storage.object_store import ObjectStore

    return ObjectStore.at(root, access)


def at_once(ask: Callable[[Asked], Answer], items: Sequence[Asked]) -> list[Answer]:
    """What each of some requests answers, in their order: an object store takes its time for each."""
    if len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(READS_AT_ONCE) as threads:
        return [*threads.map(ask, items)]


class Folder:
    """A `Storage` in a local folder."""

    # other hands may run VACUUM in it, and Spark's fails on vectors in the log
    vectors_in_log_bytes = 0

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def make(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def open(self, path: str) -> pa.NativeFile:
        try:
            return pa.OSFile(str(self._root / path))
        except FileNotFoundError:
            raise _missing(self._root / path) from None

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        target = self._root / path
        # a folder of the root may be new, the root itself may not: a table that somebody removed stays removed
        target.parent.mkdir(exist_ok=True)
        written = _synced(target, content)
        written.rename(target)
        _sync(target.parent)

    @contextmanager
    def writing(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._root / path
        # no reader looks at a hidden file, which is what a killed process leaves
        hidden = _beside(target)
        try:
            with pa.OSFile(str(hidden), "wb") as file:
                yield file
            _sync(hidden)
            hidden.rename(target)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        _sync(target.parent)

    def create(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        target = self._root / path
        if behind is not None and holding not in (self._root / behind).read_bytes():
            raise _missing(self._root / behind)
        target.parent.mkdir(exist_ok=True)
        written = _synced(target, content)
        try:
            # a link fails where the name is taken; a rename would replace what is there, and a file that is opened for
            # writing unless it exists would be seen half written
            os.link(written, target)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        _sync(target.parent)
        return True

    def uri(self) -> str:
        return str(self._root)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._root / folder) if entry.is_file())
        except FileNotFoundError:
            return []

    def written(self, folder: str) -> dict[str, int]:
        found: dict[str, int] = {}
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._root / folder):
                if entry.is_file():
                    found[str(Path(folder, entry.name))] = entry.stat().st_mtime_ns // 1_000_000
        return found

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _beside(target: Path) -> Path:
    """A hidden file in the same folder, which nobody else has."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}")


def _synced(target: Path, content: bytes | pa.Buffer) -> Path:
    """The content in a hidden file beside its target, on the disk when this returns."""
    path = _beside(target)
    with path.open("xb", buffering=0) as file:
        try:
            view = memoryview(content)
            # an unbuffered write may take less than it was given
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
    return path


def _sync(path: Path) -> None:
    """Bring a file, or a folder with its new names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
