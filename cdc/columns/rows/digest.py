"""The digest of a table: one number that shows two tables equal without joining their rows.

Each row's document is hashed, and the hashes are added. Equal tables have equal sums, whatever the order of rows and
the number of tasks; duplicate rows count twice. Different sums do not show which rows differ.

After Bellare and Micciancio, "A New Paradigm for Collision-Free Hashing: Incrementality at Reduced Cost" (EUROCRYPT
1997, AdHash); here with BLAKE2b and 128 bits. That finds accidents; it is no defence against forged rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.rows.documents import documents, portions
from cdc.columns.table_copy import TableCopy
from cdc.core.table import Table

WriteDocuments = Callable[[pa.Table, Table], pa.Array]
"""Writes rows of a table as documents; Spark can send it to its workers."""
BYTES: Final = 16
COLUMNS: Final = "rows long, total binary"
SMALL_BYTES: Final = 4 * 1024 * 1024
SMALL_ROWS: Final = 20_000
"""A table up to this size is read on the driver: that is faster than the start of a Spark job."""
IN_PROCESS: Final = 64
"""Times SMALL_BYTES: up to there a verification reads all of its tables in this process, and needs no Spark, whose
start alone takes longer; and up to there delta-rs reads one with less processor time than Spark."""
# bytes: neither Arrow nor Spark has an integer of 128 bits
_SCHEMA = pa.schema([("rows", pa.int64()), ("total", pa.binary())])
_MODULUS = 1 << (8 * BYTES)


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of rows, and the sum of their documents' hashes modulo 2^128."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: "Digest") -> "Digest":
        return Digest(self.rows + other.rows, (self.total + other.total) % _MODULUS)


def hash_document(text: bytes) -> bytes:
    """Hash one document (BLAKE2b, 16 bytes)."""
    return blake2b(text, digest_size=BYTES).digest()


def digest_of(texts: Iterable[bytes]) -> Digest:
    """Compute the digest of rows from their documents."""
    return digest_of_hashes(map(hash_document, texts))


def digest_of_hashes(hashes: Iterable[bytes]) -> Digest:
    """Compute the digest of rows from their documents' hashes."""
    return digest_of_words(np.frombuffer(b"".join(hashes), "<u8").reshape(-1, BYTES // 8))


def digest_of_words(hashes: npt.NDArray[np.uint64]) -> Digest:
    """The same of hashes as two words of 64 bits each, one line a row."""
    words = np.ascontiguousarray(hashes).view("<u4").reshape(-1, BYTES // 4)
    # words of 32 bits in sums of 64: no overflow below 2^32 rows
    total = sum(int(word) << (32 * at) for at, word in enumerate(words.sum(axis=0, dtype=np.uint64)))
    return Digest(len(words), total % _MODULUS)


def digest_of_copy(copy: TableCopy, table: Table, write: WriteDocuments = documents) -> Digest:
    """Compute the digest of a copy; each Spark task computes its part's. `write` makes a row's document."""
    return sum_answers(copy.map_parts(partial(_of_rows, table=table, write=write), COLUMNS))


def to_answer(parts: Iterable[Digest]) -> Iterator[pa.RecordBatch]:
    """Make a task's answer: the sum of its parts, as one row of COLUMNS."""
    # one row a task: the driver adds few numbers, however large the table is
    whole = sum(parts, Digest())
    yield pa.RecordBatch.from_pylist([{"rows": whole.rows, "total": whole.total.to_bytes(BYTES, "little")}], _SCHEMA)


def sum_answers(answers: DataFrame) -> Digest:
    """Add the tasks' answers, rows of COLUMNS."""
    return sum((Digest(row["rows"], int.from_bytes(row["total"], "little")) for row in answers.collect()), Digest())


def digest_of_rows(parts: Iterable[pa.Table], table: Table, write: WriteDocuments = documents) -> Digest:
    """Compute the digest of rows (in the table's Arrow schema) in this process."""
    texts = (write(rows, table) for rows in chain.from_iterable(map(portions, parts)))
    return sum((digest_of(text.cast(pa.binary()).to_pylist()) for text in texts), Digest())


def _of_rows(parts: Iterable[pa.Table], table: Table, write: WriteDocuments) -> Iterator[pa.RecordBatch]:
    return to_answer([digest_of_rows(parts, table, write)])
