"""Sorted runs in files, mapped and never believed: what is read of them is copied, and the copy is checked.

A file is blocks of entries, each behind a checksum of its own, then the first upper half of every block. Those are
read and checked when the file is opened, a fiftieth part of it. A look copies the blocks that it needs and checks the
copies each time, so that what goes wrong later, in the file or in the page cache, is found as well. Not covered: a file
that is cut off between the question for its size and the copy, and sectors that the disk cannot read. Both end the
process (SIGBUS), and say nothing wrong.
"""

import mmap
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, shake_128
from pathlib import Path
from typing import Final

import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.rows.key_fingerprints import KeyBits, Words
from sinks.lake.index.sorted_runs import Hits, Run, spread, together

BLOCK: Final = 16
"""Entries a block: of 16, 32, 64 and 128, the quickest for 10,000 random keys among 30 million."""
KEYS_AT_ONCE: Final = 2048
"""So many keys are looked for at a time: the blocks that they lie in then fit into the processor's cache."""
BLOCKS_AT_ONCE: Final = 4096
_BYTES: Final = 8
_WIDTH: Final = 1 + 3 * BLOCK
_HIGH, _LOW, _PLACES = (slice(1 + part * BLOCK, 1 + (part + 1) * BLOCK) for part in range(3))
_ODD: Final = np.frombuffer(shake_128(b"cdc: a block of the index of keys").digest(_BYTES * _WIDTH), "<u8") | np.uint64(
    1
)
_FOLD: Final = np.uint64(32)


class DamagedRunError(Exception):
    """A file of an index does not hold what was written there."""


@dataclass(frozen=True, slots=True)
class FileRun:
    """A `SortedRun` of so many entries in the file `name`."""

    name: str
    entries: int
    mapped: mmap.mmap | None
    words: Words
    fences: Words

    def __len__(self) -> int:
        return self.entries

    def find(self, keys: KeyBits) -> Hits:
        last = np.searchsorted(self.fences, keys.high, "right") - 1
        # before the first block there is nothing
        asked = np.flatnonzero(last >= 0)
        last = last[asked]
        # entries of an upper half that begins a block may begin in the blocks before
        begins = np.flatnonzero(self.fences[last] == keys.high[asked])
        first = np.maximum(np.searchsorted(self.fences, keys.high[asked[begins]]) - 1, 0)
        before, blocks = spread(asked[begins], first, last[begins])
        return together([*self._looks(keys, asked, last), *self._looks(keys, before, blocks)])

    def _looks(self, keys: KeyBits, asked: Integers, blocks: Integers) -> Iterator[tuple[Integers, Words]]:
        """The entries of these of the keys in these blocks, which ascend, some at a time."""
        for at in range(0, len(asked), KEYS_AT_ONCE):
            part = slice(at, at + KEYS_AT_ONCE)
            yield self._look(keys.take(asked[part]), asked[part], blocks[part])

    def _look(self, keys: KeyBits, asked: Integers, blocks: Integers) -> tuple[Integers, Words]:
        others = np.diff(blocks, prepend=-1) != 0
        rows, at = self._checked(blocks[others]), np.cumsum(others) - 1
        found = np.flatnonzero(rows[at, _HIGH] == keys.high[:, np.newaxis])
        which, entry = found // BLOCK, found % BLOCK
        row = at[which]
        # what fills the last block up is no entry
        same = (rows[row, _LOW.start + entry] == keys.low[which]) & (blocks[which] * BLOCK + entry < self.entries)
        return asked[which[same]], rows[row[same], _PLACES.start + entry[same]]

    def inside(self, since: np.uint64 | None, until: np.uint64 | None) -> Run:
        start = 0 if since is None else max(int(np.searchsorted(self.fences, since)) - 1, 0)
        stop = len(self.fences) if until is None else int(np.searchsorted(self.fences, until))
        parts = [self._entries(at, min(at + BLOCKS_AT_ONCE, stop)) for at in range(start, stop, BLOCKS_AT_ONCE)]
        high, low, places = (
            (np.concatenate([np.empty(0, np.uint64), *words]) for words in zip(*parts, strict=True))
            if parts
            else NOTHING
        )
        return Run(KeyBits(high, low), places).inside(since, until)

    def bounds(self, every: int) -> Words:
        step = max(every // BLOCK, 1)
        return self.fences[step::step]

    @property
    def _padding(self) -> int:
        return len(self.fences) * BLOCK - self.entries

    def _entries(self, start: int, stop: int) -> tuple[Words, Words, Words]:
        rows = self._checked(np.arange(start, stop))
        entries = len(rows) * BLOCK - (self._padding if stop == len(self.fences) else 0)
        high, low, places = (rows[:, part].reshape(-1)[:entries] for part in (_HIGH, _LOW, _PLACES))
        return high, low, places

    def _checked(self, blocks: Integers) -> Words:
        """Copies of these blocks; raises DamagedRunError when one of them is not as it was written."""
        # to read behind the end of a file that was cut off meanwhile would end the process
        if self.mapped is None or self.mapped.size() != _size(len(self.fences)):
            raise DamagedRunError(f"{self.name} has another size")
        rows = np.take(self.words, blocks, axis=0)
        if not np.array_equal(rows[:, 0], checksums(rows, _seed(self.name), blocks)):
            raise DamagedRunError(f"{self.name} is damaged")
        return rows


NOTHING: Final = (np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint64))


def checksums(rows: Words, seed: np.uint64, blocks: Integers) -> Words:
    """A checksum of each of some blocks: multilinear hashing (Lemire and Kaser, "Strongly Universal String Hashing is
    Fast", 2014), with the file and the block's place in it.

    By numpy, for all blocks at once: of zlib.crc32, 10,000 calls take more than the look itself.
    """
    # folded before they are multiplied: of a product of 64 bits, the upper bits of a word reach the upper ones only
    folded = rows >> _FOLD
    folded ^= rows
    folded[:, 0] = blocks.astype(np.uint64) + np.uint64(1)
    sums: Words = np.einsum("ij,j->i", folded, _ODD) + seed
    return sums


def open_run(folder: Path, name: str, entries: int) -> FileRun:
    """The run of so many entries in a file; raises DamagedRunError, or OSError where it cannot be read."""
    count = -(-entries // BLOCK)
    if not count:
        return FileRun(name, 0, None, NOTHING[0].reshape(0, _WIDTH), NOTHING[0])
    with (folder / name).open("rb") as file:
        if os.fstat(file.fileno()).st_size != _size(count):
            raise DamagedRunError(f"{name} has another size")
        file.seek(count * _WIDTH * _BYTES)
        fences, digest = file.read(count * _BYTES), file.read(_BYTES)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if _digest(name, fences) != digest:
        raise DamagedRunError(f"{name} is damaged")
    # in memory from here on, where they are checked no more
    words = np.frombuffer(mapped, np.uint64, count * _WIDTH).reshape(count, _WIDTH)
    return FileRun(name, entries, mapped, words, np.frombuffer(fences, np.uint64))


def write_run(parts: Iterable[Run], folder: Path) -> FileRun:
    """Runs whose keys follow each other, as one in a file of its own that is on the disk when this returns."""
    folder.mkdir(parents=True, exist_ok=True)
    name, entries, fences = f"run-{uuid.uuid4().hex}", 0, list[Words]()

    def content() -> Iterator[bytes]:
        nonlocal entries
        for rows, count in _blocks(parts):
            numbers = np.arange(len(rows)) + sum(map(len, fences))
            rows[:, 0] = checksums(rows, _seed(name), numbers)
            fences.append(rows[:, 1].copy())
            entries += count
            yield rows.tobytes()
        if fences:
            yield (all_fences := np.concatenate(fences).tobytes())
            yield _digest(name, all_fences)

    put(folder / name, content())
    return open_run(folder, name, entries)


def put(path: Path, parts: Iterable[bytes]) -> None:
    """Replace the file by parts, whole and on the disk: a crash leaves no empty file behind."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("xb") as file:
        for content in parts:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    # the folder is not synced: should an older manifest come back after a crash, what it lacks is read again
    temporary.replace(path)


def _blocks(parts: Iterable[Run]) -> Iterator[tuple[Words, int]]:
    """Entries as blocks without checksums, and how many entries these hold: all of them full but for the very last."""
    rest = NOTHING
    for part in parts:
        words = [np.concatenate(pair) for pair in zip(rest, (part.keys.high, part.keys.low, part.places), strict=True)]
        whole = len(words[0]) // BLOCK * BLOCK
        for at in range(0, whole, BLOCK * BLOCKS_AT_ONCE):
            yield _packed([word[at : min(at + BLOCK * BLOCKS_AT_ONCE, whole)] for word in words])
        rest = (words[0][whole:], words[1][whole:], words[2][whole:])
    if len(rest[0]):
        yield _packed(rest)


def _packed(words: Iterable[Words]) -> tuple[Words, int]:
    high, low, places = words
    count = len(high)
    rows = np.zeros((-(-count // BLOCK), _WIDTH), np.uint64)
    for part, values in ((_HIGH, high), (_LOW, low), (_PLACES, places)):
        padded = np.zeros(len(rows) * BLOCK, np.uint64)
        padded[:count] = values
        rows[:, part] = padded.reshape(-1, BLOCK)
    return rows, count


def _size(blocks: int) -> int:
    return (blocks * (_WIDTH + 1) + 1) * _BYTES if blocks else 0


def _seed(name: str) -> np.uint64:
    """Of the file's name, so that one file in another's place is damage as well."""
    return np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=_BYTES).digest()))


def _digest(name: str, fences: bytes) -> bytes:
    return blake2b(fences, digest_size=_BYTES, key=name.encode()).digest()
