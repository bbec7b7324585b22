"""Objects as files for Arrow: read in ranges, written in parts."""

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import obstore
import pyarrow as pa
from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore import Bytes, WritableFile

TAIL_BYTES: Final = 64 * 1024
"""What is read first: a Parquet file's footer, and all of a small file."""

Told = Callable[[], AbstractContextManager[None]]
"""In this context failures of the store become ours."""


def reader(store: S3Store, key: str, told: Told) -> pa.NativeFile:
    """An object to be read in parts; its end is asked for at once."""
    return pa.PythonFile(_Ranges(store, key, told), mode="r")


def writer(parts: "WritableFile") -> pa.NativeFile:
    """A file whose content goes on to an upload, which is ended by whoever began it."""
    return pa.PythonFile(_Parts(parts), mode="w")


class _Ranges(io.RawIOBase):
    """An object, a request a range."""

    def __init__(self, store: S3Store, key: str, told: Told) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._told = told
        # its size comes with its end: one request, and often the only one
        found = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
        self._size = found.meta["size"]
        self._tail = memoryview(found.bytes())
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

    def _range(self, start: int, end: int) -> "memoryview | Bytes":
        tail = self._size - len(self._tail)
        if start >= tail:
            return self._tail[start - tail : end - tail]
        with self._told():
            return obstore.get_range(self._store, self._key, start=start, end=end)


class _Parts(io.RawIOBase):
    """What is written is counted and handed on."""

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
