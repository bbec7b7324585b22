"""Rows of small data files in memory, whole: those of recent commits, which every batch reads a few rows of."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import pyarrow as pa

HELD_BYTES: Final = 32 * 1024 * 1024
"""Of all tables and views of this process together."""


class HeldRows:
    """The rows of the last used files, up to `most` bytes. `path`: the file's, and its folder's. It never changes."""

    def __init__(self, most: int = HELD_BYTES) -> None:
        self._most = most
        self._held: OrderedDict[str, pa.Table] = OrderedDict()
        self._bytes = 0
        # changed rows of several files are read at the same time
        self._lock = threading.Lock()

    def find(self, path: str, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows of a file, by `read` unless they are here."""
        with self._lock:
            if path in self._held:
                self._held.move_to_end(path)
                return self._held[path]
        rows = read()
        self.put(path, rows)
        return rows

    def put(self, path: str, rows: pa.Table) -> None:
        """Hold the rows of a file, and let go of those that were used longest ago."""
        with self._lock:
            if path not in self._held:
                self._held[path] = rows
                self._bytes += rows.nbytes
            while self._bytes > self._most:
                self._bytes -= self._held.popitem(last=False)[1].nbytes


HELD: Final = HeldRows()
"""What this process holds."""
