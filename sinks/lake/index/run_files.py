"""Sorted runs in memory-mapped files, verified on every read.

A file holds blocks of entries, each after its checksum, then the first upper half of every block (the fences). Opening
a file reads and verifies the fences, a fiftieth of it. A lookup copies its blocks and verifies the copies, so that
later damage to the file or the page cache is found, too. Not covered: a file truncated between the size check and the
copy, and unreadable sectors. Both kill the process (SIGBUS) without a wrong answer.
"""

import mmap
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, shake_128
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.rows.key_fingerprints import KeyBits, Words
from cdc.sinks.lake.index.sorted_runs import IndexHits, MemoryRun, concat_hits, expand_ranges

BLOCK: Final = 16
"""Entries per block: the fastest of 16, 32, 64 and 128 for 10,000 random keys among 30 million."""
KEYS_AT_ONCE: Final = 2048
"""Keys per step of a lookup: their blocks fit into the processor's cache."""
BLOCKS_AT_ONCE: Final = 4096
_BYTES: Final = 8
_WIDTH: Final = 1 + 3 * BLOCK
_HIGH, _LOW, _PLACES = (slice(1 + part * BLOCK, 1 + (part + 1) * BLOCK) for part in range(3))
_ODD: Final = np.frombuffer(shake_128(b"cdc: a block of the index of keys").digest(_BYTES * _WIDTH), "<u8") | np.uint64(
    1
)
_FOLD: Final = np.uint64(32)


class DamagedRunError(Exception):
    """A file of the index differs from what was written."""


@dataclass(frozen=True, slots=True)
class FileRun:
    """A `SortedRun` of `entries` entries in the file `name`."""

    name: str
    entries: int
    mapped: mmap.mmap | None
    words: Words
    fences: Words

    def __len__(self) -> int:
        return self.entries

    def find(self, keys: KeyBits) -> IndexHits:
        last = np.searchsorted(self.fences, keys.high, "right") - 1
        # smaller than the first entry
        queries = np.flatnonzero(last >= 0)
        last = last[queries]
        # if a block begins with the key's upper half, earlier blocks may hold more of its entries
        begins = np.flatnonzero(self.fences[last] == keys.high[queries])
        first = np.maximum(np.searchsorted(self.fences, keys.high[queries[begins]]) - 1, 0)
        before, blocks = expand_ranges(queries[begins], first, last[begins])
        return concat_hits([*self._find_in_blocks(keys, queries, last), *self._find_in_blocks(keys, before, blocks)])

    def _find_in_blocks(self, keys: KeyBits, queries: Integers, blocks: Integers) -> Iterator[tuple[Integers, Words]]:
        """Find these queries' keys in these blocks (ascending), some at a time."""
        for at in range(0, len(queries), KEYS_AT_ONCE):
            part = slice(at, at + KEYS_AT_ONCE)
            yield self._find_some(keys.take(queries[part]), queries[part], blocks[part])

    def _find_some(self, keys: KeyBits, queries: Integers, blocks: Integers) -> tuple[Integers, Words]:
        # many keys share a block: copy and verify each block once
        others = np.diff(blocks, prepend=-1) != 0
        rows, at = self._copy_checked(blocks[others]), np.cumsum(others) - 1
        matches = np.flatnonzero(rows[at, _HIGH] == keys.high[:, np.newaxis])
        # `which`: position of the query; `entry`: position in its block
        which, entry = matches // BLOCK, matches % BLOCK
        row = at[which]
        # skip the padding of the last block
        same = (rows[row, _LOW.start + entry] == keys.low[which]) & (blocks[which] * BLOCK + entry < self.entries)
        return queries[which[same]], rows[row[same], _PLACES.start + entry[same]]

    def estimate(self, keys: KeyBits) -> int:
        # whole blocks of one upper half: between two fences that are equal
        first, behind = np.searchsorted(self.fences, keys.high), np.searchsorted(self.fences, keys.high, "right")
        return int(np.maximum(behind - first - 1, 0).sum()) * BLOCK

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> MemoryRun:
        # one block earlier: its last entries may have this upper half
        start = 0 if since is None else max(int(np.searchsorted(self.fences, since)) - 1, 0)
        stop = len(self.fences) if until is None else int(np.searchsorted(self.fences, until))
        parts = [self._entries(at, min(at + BLOCKS_AT_ONCE, stop)) for at in range(start, stop, BLOCKS_AT_ONCE)]
        high, low, places = (
            (np.concatenate([np.empty(0, np.uint64), *words]) for words in zip(*parts, strict=True)) if parts else EMPTY
        )
        return MemoryRun(KeyBits(high, low), places).inside(since, until)

    def bounds(self, every: int) -> Words:
        step = max(every // BLOCK, 1)
        return self.fences[step::step]

    def _entries(self, start: int, stop: int) -> tuple[Words, Words, Words]:
        rows = self._copy_checked(np.arange(start, stop))
        # only the last block of the file is padded
        entries = min(len(rows) * BLOCK, self.entries - start * BLOCK)
        high, low, places = (rows[:, part].reshape(-1)[:entries] for part in (_HIGH, _LOW, _PLACES))
        return high, low, places

    def _copy_checked(self, blocks: Integers) -> Words:
        """Copy these blocks; raises DamagedRunError when one differs from what was written."""
        # reading beyond the end of a truncated file would kill the process
        if self.mapped is None or self.mapped.size() != _file_size(len(self.fences)):
            raise DamagedRunError(f"{self.name} has another size")
        rows = np.take(self.words, blocks, axis=0)
        if not np.array_equal(rows[:, 0], checksums(rows, _seed(self.name), blocks)):
            raise DamagedRunError(f"{self.name} is damaged")
        return rows


EMPTY: Final = (np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint64))


def checksums(rows: Words, seed: np.uint64, blocks: Integers) -> Words:
    """The checksums of blocks by multilinear hashing (Lemire and Kaser, "Strongly Universal String Hashing is Fast",
    2014), seeded by file and block number.

    Numpy computes all blocks at once; 10,000 calls of zlib.crc32 take longer than the lookup itself.
    """
    # fold first: in a 64-bit product, a word's upper bits reach only upper bits
    folded = rows >> _FOLD
    folded ^= rows
    folded[:, 0] = blocks.astype(np.uint64) + np.uint64(1)
    sums: Words = np.einsum("ij,j->i", folded, _ODD) + seed
    return sums


def open_run(folder: Path, name: str, entries: int) -> FileRun:
    """Open the run in a file; raises DamagedRunError, or OSError when the file is unreadable."""
    count = -(-entries // BLOCK)
    if not count:
        return FileRun(name, 0, None, EMPTY[0].reshape(0, _WIDTH), EMPTY[0])
    with (folder / name).open("rb") as file:
        if os.fstat(file.fileno()).st_size != _file_size(count):
            raise DamagedRunError(f"{name} has another size")
        file.seek(count * _WIDTH * _BYTES)
        fences, digest = file.read(count * _BYTES), file.read(_BYTES)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if _digest(name, fences) != digest:
        raise DamagedRunError(f"{name} is damaged")
    # the fences are in memory now and need no further check
    words = np.frombuffer(mapped, np.uint64, count * _WIDTH).reshape(count, _WIDTH)
    return FileRun(name, entries, mapped, words, np.frombuffer(fences, np.uint64))


def write_run(parts: Iterable[MemoryRun], folder: Path) -> FileRun:
    """Write runs of ascending keys as one file, durable on return."""
    make_private_folder(folder)
    name, entries, fences = f"run-{uuid.uuid4().hex}", 0, list[Words]()

    def content() -> Iterator[bytes]:
        nonlocal entries
        for rows, count in _to_blocks(parts):
            numbers = np.arange(len(rows)) + sum(map(len, fences))
            rows[:, 0] = checksums(rows, _seed(name), numbers)
            # a copy, so that the blocks can be freed
            fences.append(rows[:, 1].copy())
            entries += count
            yield rows.tobytes()
        if fences:
            yield (all_fences := np.concatenate(fences).tobytes())
            yield _digest(name, all_fences)

    replace_file(folder / name, content())
    return open_run(folder, name, entries)


def make_private_folder(folder: Path) -> None:
    """Make a folder that nobody else on this machine may enter: what is below tells of rows."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    """Create a file that nobody else on this machine may read."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Replace a file atomically and fsync it: a crash leaves no empty file."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open_private(temporary) as file:
        for content in parts:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    # no fsync of the folder: if a crash restores an older manifest, the missing files are read again
    temporary.replace(path)


def _to_blocks(parts: Iterable[MemoryRun]) -> Iterator[tuple[Words, int]]:
    """Yield blocks without checksums, and their number of entries; only the very last block is padded."""
    rest = EMPTY
    for part in parts:
        words = [np.concatenate(pair) for pair in zip(rest, (part.keys.high, part.keys.low, part.places), strict=True)]
        whole = len(words[0]) // BLOCK * BLOCK
        for at in range(0, whole, BLOCK * BLOCKS_AT_ONCE):
            yield _pack([word[at : min(at + BLOCK * BLOCKS_AT_ONCE, whole)] for word in words])
        rest = (words[0][whole:], words[1][whole:], words[2][whole:])
    if len(rest[0]):
        yield _pack(rest)


def _pack(words: Iterable[Words]) -> tuple[Words, int]:
    high, low, places = words
    count = len(high)
    rows = np.zeros((-(-count // BLOCK), _WIDTH), np.uint64)
    for part, values in ((_HIGH, high), (_LOW, low), (_PLACES, places)):
        padded = np.zeros(len(rows) * BLOCK, np.uint64)
        padded[:count] = values
        rows[:, part] = padded.reshape(-1, BLOCK)
    return rows, count


def _file_size(blocks: int) -> int:
    return (blocks * (_WIDTH + 1) + 1) * _BYTES if blocks else 0


def _seed(name: str) -> np.uint64:
    """Derived from the file's name: a file in another's place counts as damaged."""
    return np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=_BYTES).digest()))


def _digest(name: str, fences: bytes) -> bytes:
    return blake2b(fences, digest_size=_BYTES, key=name.encode()).digest()
