"""A lake on an object store that speaks S3: whole objects, and put if absent.

That is `If-None-Match: *` (RFC 9110, section 13.1.2), which S3 calls a conditional write.
"""

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import S3Store

from cdc.core.errors import PreconditionError
from sinks.lake.settings import SCHEME, S3Settings
from sinks.lake.storage import object_files
from sinks.lake.storage.s3_client import answers_of, connected

PART_BYTES: Final = 8 * 1024 * 1024
"""What is larger is sent in parts of this size."""
PARTS_AT_ONCE: Final = 3
TRIES: Final = 10
TRY_AGAIN_SECONDS: Final = 0.05

_looking = threading.Lock()
_fit: set[tuple[str, S3Settings]] = set()
"""Buckets that were seen to put if absent."""


@dataclass(frozen=True)
class ObjectStore:
    """A `Storage` below a prefix of a bucket; it connects where it is used first."""

    bucket: str
    prefix: str
    access: S3Settings
    vectors_in_log_bytes: ClassVar[int] = 32 * 1024

    @classmethod
    def at(cls, root: str, access: S3Settings) -> Self:
        """Below `root`, which is `s3://bucket/prefix`."""
        bucket, _, prefix = root.removeprefix(SCHEME).partition("/")
        return cls(bucket, prefix.strip("/"), access)

    def make(self) -> None:
        """Nothing is to be made; whether tables are safe in this bucket is looked at once a process."""
        with _looking:
            if (self.bucket, self.access) not in _fit:
                self._check_put_if_absent()
                _fit.add((self.bucket, self.access))

    def read(self, path: str) -> bytes:
        with self._told(path):
            return bytes(obstore.get(self._store, self._key(path)).bytes())

    def open(self, path: str) -> pa.NativeFile:
        with self._told(path):
            return object_files.reader(self._store, self._key(path), lambda: self._told(path))

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        with self._told(path):
            plain = memoryview(content).cast("B")
            obstore.put(self._store, self._key(path), plain, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    @contextmanager
    def writing(self, path: str) -> Iterator[pa.NativeFile]:
        key = self._key(path)
        # leaving it by an error gives up the parts that were sent
        with (
            self._told(path),
            obstore.open_writer(self._store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE) as parts,
        ):
            yield object_files.writer(parts)

    def create(self, path: str, content: bytes, behind: str | None = None, holding: bytes = b"") -> bool:
        # one request, as asking for its size alone would be: a commit is some kilobytes
        if behind is not None and holding not in self.read(behind):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.uri()}/{behind}")
        with self._told(path):
            return self._created(path, content)

    def uri(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def names(self, folder: str) -> list[str]:
        return sorted(_name(each) for each in self._listed(folder))

    def written(self, folder: str) -> dict[str, int]:
        listed = self._listed(folder)
        return {
            f"{folder}/{_name(each)}".strip("/"): round(each["last_modified"].timestamp() * 1000) for each in listed
        }

    def _listed(self, folder: str) -> Sequence[Any]:
        with self._told(folder):
            return obstore.list_with_delimiter(self._store, self._key(folder))["objects"]

    def delete(self, paths: Iterable[str]) -> None:
        keys = [self._key(path) for path in paths]
        if keys:
            with self._told():
                obstore.delete(self._store, keys)

    @property
    def _store(self) -> S3Store:
        return connected(self.bucket, self.access)

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{path}".strip("/")

    def _told(self, path: str = "") -> AbstractContextManager[None]:
        return answers_of(self.uri(), self.access, path)

    def _created(self, path: str, content: bytes) -> bool:
        """Put if absent, whatever the answers say.

        A refusal does not prove that another one was first: a request that was sent again finds what it had put itself,
        and "409, try again" sounds the same. A failure does not prove that nothing was put. What is there tells.
        """
        for left in reversed(range(TRIES)):
            try:
                obstore.put(self._store, self._key(path), content, mode="create")
                return True
            except (AlreadyExistsError, GenericError) as unsure:
                try:
                    return self.read(path) == content
                except FileNotFoundError:
                    if not left:
                        raise unsure from None
            time.sleep(TRY_AGAIN_SECONDS)
        raise AssertionError("unreachable")

    def _check_put_if_absent(self) -> None:
        """Raise PreconditionError for a store that puts over what is there: two writers would lose commits in it."""
        path = f".cdc-{uuid.uuid4()}"
        with self._told(path):
            obstore.put(self._store, self._key(path), b"first", mode="create")
            try:
                obstore.put(self._store, self._key(path), b"second", mode="create")
            except AlreadyExistsError:
                return
            finally:
                self.delete([path])
        raise PreconditionError(
            f"the object store of {self.uri()} overwrites what it is told to leave (If-None-Match: *)",
            "use one with conditional writes: two writers would lose commits in this one",
        )


def _name(listed: Any) -> str:
    return str(listed["path"].rpartition("/")[2])
