"""Prints in files, by buckets of their names: two sides are compared bucket by bucket, so that memory stays small.

As a hash join does that does not fit into memory (Kitsuregawa, Tanaka and Moto-oka, "Application of Hash to Data Base
Machine and Its Architecture", 1983, GRACE).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from cdc.columns.rows.row_prints import Names, Prints

BUCKETS: Final = 64
"""Of a hundred million rows, a bucket takes 50 MB a side."""
_SHIFT: Final = np.uint64(64 - BUCKETS.bit_length() + 1)
_ROW_BYTES: Final = 32


class PrintFiles:
    """The prints of one side, in the order in which they were added. `is_log`: of a name the last one counts."""

    def __init__(self, folder: Path) -> None:
        self.is_log = False
        self._folder = folder
        folder.mkdir(parents=True)

    def add(self, prints: Prints) -> None:
        buckets = bucket_of(prints)
        # stable: of a name that comes again, the later one stays the later one
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(BUCKETS), "right")
        for number, part in enumerate(np.split(prints[order], ends[:-1])):
            if len(part):
                with self._path(number).open("ab") as file:
                    file.write(part.tobytes())

    def read(self) -> Iterator[Prints]:
        """Each bucket, in order; empty ones, too."""
        for number in range(BUCKETS):
            path = self._path(number)
            content = path.read_bytes() if path.exists() else b""
            yield np.frombuffer(content, "<u8").reshape(-1, _ROW_BYTES // 8)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:02}"


def bucket_of(names: Names) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """The bucket of each name or print."""
    found: np.ndarray[tuple[int], np.dtype[np.uint64]] = names[:, 0] >> _SHIFT
    return found


def split_names(names: Names) -> Iterator[Names]:
    """The names of each bucket, in order."""
    buckets = bucket_of(names)
    for number in range(BUCKETS):
        yield names[buckets == number]
