"""A lake on an object store: whole objects, and put-if-absent.

Put-if-absent is `If-None-Match: *` (RFC 9110, section 13.1.2), which S3 calls a conditional write; at Google it is
`x-goog-if-generation-match: 0`.
"""

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, GenericError

from cdc.core.errors import PreconditionError
from cdc.sinks.lake.cloud_settings import split_path
from cdc.sinks.lake.settings import StoreSettings
from cdc.sinks.lake.storage import object_files
from cdc.sinks.lake.storage.base import map_concurrently
from cdc.sinks.lake.storage.clients import Bucket, connect
from cdc.sinks.lake.storage.store_errors import translate_errors

PART_BYTES: Final = 8 * 1024 * 1024
"""Larger objects are uploaded in parts of this size."""
PARTS_AT_ONCE: Final = 3
MAX_TRIES: Final = 10
RETRY_SECONDS: Final = 0.05

_check_lock = threading.Lock()
_checked_buckets: set[tuple[str, StoreSettings]] = set()
"""Buckets whose put-if-absent this process has tested."""


@dataclass(frozen=True)
class ObjectStore:
    """A `Storage` below a prefix of a bucket, whose path may have been spelled as `root`; it connects on first use."""

    bucket: str
    prefix: str
    access: StoreSettings
    root: str = ""
    vectors_in_log_bytes: ClassVar[int] = 32 * 1024

    @classmethod
    def at(cls, root: str, access: StoreSettings) -> Self:
        """A store at `root`, which is `s3://bucket/prefix`, say."""
        bucket, prefix = split_path(root)
        return cls(bucket, prefix, access, root.rstrip("/"))

    def make_root(self) -> None:
        """Test once per process that the bucket supports put-if-absent; a prefix needs no creation."""
        with _check_lock:
            if (self.bucket, self.access) not in _checked_buckets:
                self._check_put_if_absent()
                _checked_buckets.add((self.bucket, self.access))

    def read(self, path: str) -> bytes:
        with self._translate_errors(path):
            return bytes(obstore.get(self._store, self._key(path)).bytes())

    def open(self, path: str) -> pa.NativeFile:
        with self._translate_errors(path):
            return object_files.open_reader(self._store, self._key(path), lambda: self._translate_errors(path))

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        with self._translate_errors(path):
            # obstore takes flat bytes only
            plain = memoryview(content).cast("B")
            obstore.put(self._store, self._key(path), plain, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    @contextmanager
    def open_writer(self, path: str) -> Iterator[pa.NativeFile]:
        key = self._key(path)
        # an error aborts the upload and drops its parts
        with (
            self._translate_errors(path),
            obstore.open_writer(self._store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE) as parts,
        ):
            yield object_files.wrap_writer(parts)

    def put_if_absent(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        # a commit is a few kilobytes, so reading it costs one request, as a HEAD would
        if behind is not None and holding not in self.read(behind):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.uri()}/{behind}")
        with self._translate_errors(path):
            return self._put_if_absent(path, content)

    def uri(self) -> str:
        return self.root or f"{self.access.scheme}{self.bucket}/{self.prefix}".rstrip("/")

    def list_names(self, folder: str) -> list[str]:
        return sorted(_file_name(entry) for entry in self._list(folder))

    def list_write_times(self, folder: str) -> dict[str, int]:
        entries = self._list(folder)
        return {
            f"{folder}/{_file_name(entry)}".strip("/"): round(entry["last_modified"].timestamp() * 1000)
            for entry in entries
        }

    def _list(self, folder: str) -> Sequence[Any]:
        with self._translate_errors(folder):
            return obstore.list_with_delimiter(self._store, self._key(folder))["objects"]

    def delete(self, paths: Iterable[str]) -> None:
        keys = [self._key(path) for path in paths]
        with self._translate_errors():
            try:
                if keys:
                    obstore.delete(self._store, keys)
            except FileNotFoundError:
                # S3 says nothing of missing ones; for the others they end the call, whatever else is left
                map_concurrently(self._delete_one, keys)

    def _delete_one(self, key: str) -> None:
        with suppress(FileNotFoundError), self._translate_errors(key):
            obstore.delete(self._store, key)

    @property
    def _store(self) -> Bucket:
        return connect(self.bucket, self.access)

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{path}".strip("/")

    def _translate_errors(self, path: str = "") -> AbstractContextManager[None]:
        return translate_errors(self.uri(), self.access, path)

    def _put_if_absent(self, path: str, content: bytes) -> bool:
        """Put if absent, and find out whether our content won.

        A refusal does not prove that another writer won: a retried request finds its own object, and "409, try again"
        looks the same. A failure does not prove that nothing was written. So read the object back and compare.
        """
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                obstore.put(self._store, self._key(path), content, mode="create")
                return True
            except (AlreadyExistsError, GenericError) as unsure:
                try:
                    return self.read(path) == content
                except FileNotFoundError:
                    if not tries_left:
                        raise unsure from None
            # the store asked for a retry, and nothing is there yet
            time.sleep(RETRY_SECONDS)
        raise AssertionError("unreachable")

    def _check_put_if_absent(self) -> None:
        """Raise PreconditionError when the store overwrites existing objects: two writers would lose commits."""
        path = f".cdc-{uuid.uuid4()}"
        with self._translate_errors(path):
            obstore.put(self._store, self._key(path), b"first", mode="create")
            try:
                obstore.put(self._store, self._key(path), b"second", mode="create")
            except AlreadyExistsError:
                return
            finally:
                self.delete([path])
        raise PreconditionError(
            f"the object store of {self.uri()} overwrites what it is told to leave (put if absent)",
            "use one with conditional writes: two writers would lose commits in this one",
        )


def _file_name(listed: Any) -> str:
    return str(listed["path"].rpartition("/")[2])
