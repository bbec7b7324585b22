"""Where a lake's bytes live: a local folder or an object store. Both offer put-if-absent, on which commits rely."""

import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from cdc.sinks.lake.settings import StoreSettings

READS_AT_ONCE: Final = 16
"""Concurrent requests: an object store takes its time for each."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Storage(Protocol):
    """Whole files by their path below one root; `/` separates folders. A finished call survives a crash.

    Storages are pickled and sent to Spark's tasks, so they carry their own access settings.
    """

    @property
    def vectors_in_log_bytes(self) -> int:
        """Largest total size of a commit's deletion vectors that go inline into the log; inline vectors save a file."""

    def make_root(self) -> None:
        """Create the root if the storage has one; raises PreconditionError when no table would be safe here."""

    def read(self, path: str) -> bytes:
        """Read a whole file; raises FileNotFoundError."""

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reads of ranges; raises FileNotFoundError."""

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file, replacing any file at that path."""

    def open_writer(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Open a file for writing in parts; only a few parts are in memory at a time.

        The whole file appears when the context ends. If the context ends by an error, no file appears.
        """

    def put_if_absent(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        """Write a file unless the path is taken; returns whether it was written. Of two writers, one gets False.

        Raises FileNotFoundError when the file `behind` is gone or lacks the bytes `holding`, or when the root is gone.
        Two files must never have the same content.
        """

    def uri(self) -> str:
        """The root as delta-rs and Spark spell it."""

    def list_names(self, folder: str) -> list[str]:
        """List the names of the files in a folder, sorted; empty when the folder does not exist."""

    def list_write_times(self, folder: str) -> dict[str, int]:
        """List a folder's files, hidden ones included: path → time of writing in ms since 1970."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""


def open_storage(root: str, access: StoreSettings | None) -> Storage:
    """Open a local folder, or the prefix of a bucket when `access` is given."""
    if access is None:
        return LocalFolder(root)
    from cdc.sinks.lake.storage.object_store import ObjectStore

    return ObjectStore.at(root, access)


def map_concurrently(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Call `ask` for every item, up to READS_AT_ONCE at a time; results keep the items' order."""
    # a thread pool costs more than one call
    if len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(READS_AT_ONCE) as threads:
        return [*threads.map(ask, items)]


class LocalFolder:
    """A `Storage` in a local folder."""

    # users may run VACUUM here, and Spark's VACUUM fails on inline vectors
    vectors_in_log_bytes = 0

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def make_root(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def open(self, path: str) -> pa.NativeFile:
        try:
            return pa.OSFile(str(self._root / path))
        except FileNotFoundError:
            raise _not_found(self._root / path) from None

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        target = self._root / path
        # create a subfolder, never the root: a table that somebody removed must stay removed
        target.parent.mkdir(exist_ok=True)
        written = _write_synced(target, content)
        written.rename(target)
        # the new name is durable only once its folder is
        _sync(target.parent)

    @contextmanager
    def open_writer(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._root / path
        # a killed process leaves only a hidden file, which no reader opens
        hidden = _hidden_sibling(target)
        try:
            with pa.OSFile(str(hidden), "wb") as file:
                yield file
            _sync(hidden)
            hidden.rename(target)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        _sync(target.parent)

    def put_if_absent(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        target = self._root / path
        if behind is not None and holding not in (self._root / behind).read_bytes():
            raise _not_found(self._root / behind)
        target.parent.mkdir(exist_ok=True)
        written = _write_synced(target, content)
        try:
            # os.link fails when the name exists. A rename would replace the other file; O_EXCL would show readers a
            # half-written one
            os.link(written, target)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        _sync(target.parent)
        return True

    def uri(self) -> str:
        return str(self._root)

    def list_names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._root / folder) if entry.is_file())
        except FileNotFoundError:
            return []

    def list_write_times(self, folder: str) -> dict[str, int]:
        times: dict[str, int] = {}
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._root / folder):
                if entry.is_file():
                    times[str(Path(folder, entry.name))] = entry.stat().st_mtime_ns // 1_000_000
        return times

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)


def _not_found(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _hidden_sibling(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}")


def _write_synced(target: Path, content: bytes | pa.Buffer) -> Path:
    """Write the content to a hidden file beside its target and fsync it; returns the hidden path."""
    path = _hidden_sibling(target)
    with path.open("xb", buffering=0) as file:
        try:
            view = memoryview(content)
            # an unbuffered write may write fewer bytes than it was given
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
    return path


def _sync(path: Path) -> None:
    """Fsync a file, or a folder with its new names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
