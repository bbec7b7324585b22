"""Copies of a table's columns beside it, uncompressed, from which a few rows are read quickly; below the state folder.

A column of Parquet has to be decoded by pages, so that a few rows of a file cost as much as very many; of a mapped
Arrow file, a row is found by its number. Copies may be missing, old or damaged: rows are then read from the table's own
files, and the copy is made again.
"""

import mmap
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.sinks.lake.index.run_files import make_private_folder, open_private
from cdc.sinks.lake.table.held_rows import HELD

BATCH_ROWS: Final = 65_536
_SUFFIX: Final = ".rows"
_UNFINISHED: Final = ".part"
_WORD: Final = 8


class DamagedRowsError(Exception):
    """A file of rows differs from what was written."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of one data file, memory-mapped: a message of Arrow's IPC format for each `BATCH_ROWS` rows.

    Behind them stand where each message ends and its checksum (`bounds`, by batch). A batch is verified when its first
    row is read, before Arrow sees it (Arrow trusts what it maps), and again when the file was written to since.
    """

    path: Path
    schema: pa.Schema
    mapped: mmap.mmap
    stamp: tuple[int, int] | None
    bounds: Integers
    verified: dict[int, pa.RecordBatch] = field(default_factory=dict)

    def read(self, numbers: Integers, names: Sequence[str]) -> pa.Table:
        """Read columns of the rows with these numbers; raises DamagedRowsError."""
        # reading beyond the end of a truncated file would kill the process
        if _stamp(self.path) != self.stamp:
            raise DamagedRowsError(f"{self.path.name} is not as it was when it was opened")
        # mostly ascending: one run a batch
        runs = np.split(numbers, np.flatnonzero(np.diff(numbers // BATCH_ROWS)) + 1) if len(numbers) else []
        parts = [self._take(run, names) for run in runs]
        return pa.Table.from_batches(parts, pa.schema([self.schema.field(name) for name in names]))

    def _take(self, numbers: Integers, names: Sequence[str]) -> pa.RecordBatch:
        batch = self._batch(int(numbers[0]) // BATCH_ROWS)
        return batch.select(names).take(pa.array(numbers % BATCH_ROWS))

    def _batch(self, number: int) -> pa.RecordBatch:
        if number not in self.verified:
            begin, end = (int(self.bounds[number - 1, 0]) if number else 0), int(self.bounds[number, 0])
            message = memoryview(self.mapped)[begin:end]
            if _checksum(self.path.name, number, message) != self.bounds[number, 1]:
                raise DamagedRowsError(f"{self.path.name} differs from what was written")
            self.verified[number] = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
        return self.verified[number]


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
        # other columns have other files
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        self._folder = folder / blake2b(columns.encode(), digest_size=8).hexdigest()
        self._open: dict[str, RowFile] = {}
        self._writing: dict[str, Future[None]] = {}
        # one: it decodes whole files beside whoever waits for a few rows
        self._thread = ThreadPoolExecutor(1, "row files")

    def hold(self, path: str, rows: pa.Table) -> None:
        """Hold the rows of a small data file in memory, of which no copy is made."""
        HELD.put(self._held_path(path), rows)

    def find_held(self, path: str, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows of a small data file, by `read` unless they are held; they are from now on."""
        return HELD.find(self._held_path(path), read)

    def _held_path(self, path: str) -> str:
        return str(self._folder / path)

    def find(self, path: str, rows: int) -> RowFile | None:
        """The row file of a data file with so many rows, if there is one. Raises DamagedRowsError."""
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
        try:
            copy = self.find(path, rows)
            return copy.read(numbers, names) if copy else None
        except DamagedRowsError:
            self.discard(path)
            raise

    def request(self, path: str, read: Callable[[], Iterable[pa.Table]]) -> None:
        """Have the row file of a data file written, by another thread; `read` returns its rows, in order."""
        # once: a disk that is full stays so for a while
        if path not in self._writing:
            self._writing[path] = self._thread.submit(self.write, path, read)

    def settle(self) -> None:
        """Wait until all requested files are written. Raises the failure of one."""
        for writing in self._writing.values():
            writing.result()

    def close(self) -> None:
        """Give up what is requested and not begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def write(self, path: str, read: Callable[[], Iterable[pa.Table]]) -> None:
        """Write the row file of a data file."""
        make_private_folder(self._folder)
        target = self._folder / _name(path)
        unfinished = target.with_suffix(_UNFINISHED)
        # of a process that was killed
        unfinished.unlink(missing_ok=True)
        try:
            self._write(unfinished, target.name, read())
            # without fsync: what a crash leaves undone differs from its checksums
            unfinished.replace(target)
        finally:
            # of a disk that is full
            unfinished.unlink(missing_ok=True)

    def _write(self, file: Path, name: str, parts: Iterable[pa.Table]) -> None:
        bounds = list[tuple[int, int]]()
        with open_private(file) as out:
            for number, batch in enumerate(_batches(parts, self.schema)):
                message = memoryview(batch.serialize())
                out.write(message)
                bounds.append((out.tell(), _checksum(name, number, message)))
            words = np.array(bounds, np.int64).tobytes()
            out.write(words + _checksum(name, len(bounds), words).to_bytes(_WORD, "little"))

    def discard(self, path: str) -> None:
        """Delete a damaged file."""
        self._open.pop(path, None)
        self._writing.pop(path, None)
        (self._folder / _name(path)).unlink(missing_ok=True)

    def keep(self, paths: Iterable[str]) -> None:
        """Delete the row files of all other data files, and those of other columns."""
        kept = set(map(_name, paths))
        for file in self._folder.iterdir() if self._folder.exists() else ():
            # those that a killed process left unfinished, too
            if file.with_suffix(_SUFFIX).name not in kept:
                file.unlink(missing_ok=True)
        for folder in self._folder.parent.glob("*") if self._folder.parent.exists() else ():
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)
        self._writing = {path: writing for path, writing in self._writing.items() if _name(path) in kept}
        self._open = {path: file for path, file in self._open.items() if _name(path) in kept}

    def _map(self, path: str, rows: int) -> RowFile | None:
        file, count = self._folder / _name(path), -(-rows // BATCH_ROWS)
        try:
            mapped, stamp = _map_file(file), _stamp(file)
        except FileNotFoundError:
            return None
        words = mapped[-_WORD * (2 * count + 1) :]
        checksum = _checksum(file.name, count, words[:-_WORD]).to_bytes(_WORD, "little")
        if len(words) != _WORD * (2 * count + 1) or words[-_WORD:] != checksum:
            raise DamagedRowsError(f"{file.name} has no end")
        return RowFile(file, self.schema, mapped, stamp, np.frombuffer(words[:-_WORD], np.int64).reshape(count, 2))


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise DamagedRowsError(f"{path.name} is empty") from error


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def _name(path: str) -> str:
    return blake2b(path.encode(), digest_size=16).hexdigest() + _SUFFIX


def _batches(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows in batches of `BATCH_ROWS`, the last one of what is left."""
    rest = schema.empty_table()
    for part in parts:
        rest = pa.concat_tables([rest, part])
        while rest.num_rows >= BATCH_ROWS:
            yield _one_batch(rest.slice(0, BATCH_ROWS))
            rest = rest.slice(BATCH_ROWS)
    if rest.num_rows:
        yield _one_batch(rest)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    # texts above 2 GiB do not fit: then there is no copy
    [batch] = rows.combine_chunks().to_batches()
    return batch


def _checksum(name: str, number: int, content: bytes | memoryview) -> int:
    """Of a part of a file, and of its place: what lies in another's is found."""
    return zlib.crc32(content, zlib.crc32(f"{name} {number}".encode()))
