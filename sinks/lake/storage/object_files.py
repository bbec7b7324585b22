"""Objects as files for Arrow: read in ranges, written in parts."""

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import obstore
import pyarrow as pa
from obstore.exceptions import GenericError
from obstore.store import AzureStore

from cdc.sinks.lake.storage.clients import Bucket

if TYPE_CHECKING:
    from obstore import Bytes, WritableFile

TAIL_BYTES: Final = 64 * 1024
"""Bytes fetched on open: enough for a Parquet footer, or for all of a small file."""

ErrorContext = Callable[[], AbstractContextManager[None]]
"""Opens a context that turns the store's errors into ours."""


def open_reader(store: Bucket, key: str, errors: ErrorContext) -> pa.NativeFile:
    """Open an object for reads of ranges; fetches its last TAIL_BYTES at once."""
    return pa.PythonFile(_RangeFile(store, key, errors), mode="r")


def wrap_writer(parts: "WritableFile") -> pa.NativeFile:
    """Wrap an upload as a file for Arrow; the caller finishes or aborts the upload."""
    return pa.PythonFile(_UploadFile(parts), mode="w")


class _RangeFile(io.RawIOBase):
    """A readable object; one request per range."""

    def __init__(self, store: Bucket, key: str, errors: ErrorContext) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._errors = errors
        self._size, self._tail = self._open_tail()
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        start = self._at
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        self._at = max(start, end)
        return bytes(self._range(start, end)) if start < end else b""

    def _open_tail(self) -> "tuple[int, memoryview]":
        """The object's size and its last bytes: one request, often the only one."""
        if isinstance(self._store, AzureStore):
            return self._open_head()
        # the tail's response carries the object's size
        tail = obstore.get(self._store, self._key, options={"range": {"suffix": TAIL_BYTES}})
        return tail.meta["size"], memoryview(tail.bytes())

    def _open_head(self) -> "tuple[int, memoryview]":
        """The same of a store that gives no suffixes: the beginning; a larger object's tail comes when it is read."""
        try:
            head = obstore.get(self._store, self._key, options={"range": (0, TAIL_BYTES)})
        except GenericError:
            # an empty object has no range
            if obstore.head(self._store, self._key)["size"]:
                raise
            return 0, memoryview(b"")
        size, content = head.meta["size"], memoryview(head.bytes())
        return size, content if size == len(content) else content[:0]

    def _range(self, start: int, end: int) -> "memoryview | Bytes":
        if not self._tail and end == self._size:
            # the footer's length is asked for first, then the footer
            start_of_tail = max(0, self._size - TAIL_BYTES)
            self._tail = memoryview(self._ask(min(start, start_of_tail), end))
        tail = self._size - len(self._tail)
        # footer and small files are in the tail: no further request
        if start >= tail:
            return self._tail[start - tail : end - tail]
        return self._ask(start, end)

    def _ask(self, start: int, end: int) -> "Bytes":
        with self._errors():
            return obstore.get_range(self._store, self._key, start=start, end=end)


class _UploadFile(io.RawIOBase):
    """A writable object that counts its bytes and passes them to the upload."""

    def __init__(self, parts: "WritableFile") -> None:
        super().__init__()
        self._parts = parts
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, content: pa.Buffer | bytes, /) -> int:
        plain = memoryview(content).cast("B")
        self._parts.write(plain)
        self._size += len(plain)
        return len(plain)
