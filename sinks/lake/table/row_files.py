"""Copies of a table's columns beside it, row by row, from which a few rows are read quickly; below the state folder.

They may be missing, old or damaged: rows are then read from the table's own files, and the copy is made again.
"""

import mmap
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.sinks.lake.index.run_files import make_private_folder, open_private
from cdc.sinks.lake.table.held_rows import HeldRows
from cdc.sinks.lake.table.row_format import Bytes, DamagedRowsError, RowFormat, expand

ROWS_AT_ONCE: Final = 65_536
_SUFFIX: Final = ".rows"


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of one data file, memory-mapped: all records, then the heap with their texts."""

    format: RowFormat
    rows: int
    mapped: mmap.mmap
    size: int

    def read(self, numbers: Integers, names: Sequence[str]) -> pa.Table:
        """Read columns of the rows with these numbers; raises DamagedRowsError."""
        # reading beyond the end of a truncated file would kill the process
        if self.mapped.size() != self.size or (len(numbers) and int(numbers.max()) >= self.rows):
            raise DamagedRowsError("a file of rows has another size")
        whole = np.frombuffer(self.mapped, np.uint8)
        split = self.rows * self.format.width
        records = whole[:split].reshape(self.rows, self.format.width)[numbers]
        return self.format.decode(records, self._read_texts(whole[split:], records), numbers, names)

    def _read_texts(self, heap: Bytes, records: Bytes) -> Bytes:
        places, lengths = self.format.places(records), self.format.lengths(records).sum(axis=1)
        if len(places) and (int(places.min()) < 0 or int((places + lengths).max()) > len(heap)):
            raise DamagedRowsError("a row's texts lie outside of its file")
        return heap[expand(places, lengths)]


@dataclass(frozen=True, slots=True)
class Derivation:
    """Columns that are computed from a table's: `compute` makes rows of them from rows with the columns `names`."""

    names: Sequence[str]
    compute: Callable[[pa.Table], pa.Table]


class RowFiles:
    """The row files of one table's columns, or of others `derived` from them, by the names of its data files."""

    def __init__(self, folder: Path, schema: pa.Schema, derived: Derivation | None = None) -> None:
        self.schema = schema
        self.derived = derived
        self.columns = frozenset(schema.names)
        self._format = RowFormat(schema)
        # other columns have another record
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        self._folder = folder / blake2b(columns.encode(), digest_size=8).hexdigest()
        self.held = HeldRows()
        """Small files, of which no copies are made."""
        self._open: dict[str, RowFile] = {}
        self._writing: dict[str, Future[None]] = {}
        # one: it decodes whole files beside whoever waits for a few rows
        self._thread = ThreadPoolExecutor(1, "row files")

    def find(self, path: str, rows: int) -> RowFile | None:
        """The row file of a data file with so many rows; None when there is none of the right size."""
        if path not in self._open:
            found = self._map(path, rows)
            if found is None:
                return None
            self._open[path] = found
        return self._open[path]

    def read(self, path: str, rows: int, numbers: Integers, names: Sequence[str]) -> pa.Table | None:
        """Read columns of some rows of a data file with so many rows; None where there is no copy of it.

        Raises DamagedRowsError, and deletes the copy then.
        """
        copy = self.find(path, rows)
        try:
            return copy.read(numbers, names) if copy else None
        except DamagedRowsError:
            self.discard(path)
            raise

    def request(self, path: str, read: Callable[[], Iterable[pa.Table]], rows: int) -> None:
        """Have the row file of a data file written, by another thread; `read` returns its rows, in order."""
        # once: a disk that is full stays so for a while
        if path not in self._writing:
            self._writing[path] = self._thread.submit(self.write, path, read, rows)

    def settle(self) -> None:
        """Wait until all requested files are written. Raises the failure of one."""
        for writing in self._writing.values():
            writing.result()

    def close(self) -> None:
        """Give up what is requested and not begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def write(self, path: str, read: Callable[[], Iterable[pa.Table]], rows: int) -> None:
        """Write the row file of a data file."""
        make_private_folder(self._folder)
        target, width, at, size = self._folder / _name(path), self._format.width, 0, 0
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with open_private(temporary) as file:
            for part in read():
                for start in range(0, part.num_rows, ROWS_AT_ONCE):
                    records, heap = self._format.encode(part.slice(start, ROWS_AT_ONCE), at, size)
                    os.pwrite(file.fileno(), records.tobytes(), at * width)
                    os.pwrite(file.fileno(), heap.tobytes(), rows * width + size)
                    at, size = at + len(records), size + len(heap)
        # without fsync: what a crash leaves undone differs from its checksums
        temporary.replace(target)

    def discard(self, path: str) -> None:
        """Delete a damaged file."""
        self._open.pop(path, None)
        self._writing.pop(path, None)
        (self._folder / _name(path)).unlink(missing_ok=True)

    def keep(self, paths: Iterable[str]) -> None:
        """Delete the row files of all other data files, and those of other columns."""
        kept = set(map(_name, paths))
        for file in self._folder.glob(f"*{_SUFFIX}") if self._folder.exists() else ():
            if file.name not in kept:
                file.unlink(missing_ok=True)
        for folder in self._folder.parent.glob("*") if self._folder.parent.exists() else ():
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)
        self._writing = {path: writing for path, writing in self._writing.items() if _name(path) in kept}
        self._open = {path: file for path, file in self._open.items() if _name(path) in kept}

    def _map(self, path: str, rows: int) -> RowFile | None:
        try:
            with (self._folder / _name(path)).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < max(rows * self._format.width, 1):
                    return None
                return RowFile(self._format, rows, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), size)
        except FileNotFoundError:
            return None


def _name(path: str) -> str:
    return blake2b(path.encode(), digest_size=16).hexdigest() + _SUFFIX
