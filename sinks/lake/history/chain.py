"""The chain of a history: every batch of rows names the digest of all rows before it.

A row of the past that somebody changes, takes away or adds later no longer fits (*Designing Data-Intensive
Applications*, "Trust, but Verify": tools for auditable data systems). Whoever keeps a chain's end elsewhere also
notices a history that was written anew from some row on.
"""

import hashlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE
from cdc.sinks.lake.history.value_bytes import feed_values

BEGINNING: Final = ""
"""What the first batch names."""
BLOCK_ROWS: Final = 10_000
"""Rows whose values are digested together: by their sequence numbers, divided by this."""


def digest_batch(rows: pa.Table, table: Table) -> str:
    """The digest of a batch's rows, which are in the order of their sequence numbers."""
    block = np.asarray(rows[SEQUENCE]) // BLOCK_ROWS
    starts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(rows)]
    return digest_blocks(digest_block(rows.slice(at, end - at), table) for at, end in pairwise(starts))


def digest_blocks(blocks: Iterable[str]) -> str:
    """The digest of a batch, by those of its blocks in their order."""
    return hashlib.sha256("".join(blocks).encode()).hexdigest()


def digest_block(rows: pa.Table, table: Table) -> str:
    """The digest (SHA-256, hex) of rows in order, without their places in the chain.

    Of columns with a value, by name: one that comes later, goes, or stands elsewhere then, changes no digest.
    """
    found, schema = hashlib.sha256(), arrow_schema(table)
    for field in sorted(schema, key=lambda field: field.name):
        if field.name not in (BATCH, CHAIN):
            values = rows[field.name].combine_chunks().cast(field.type)
            if values.null_count < len(values):
                found.update(field.name.encode() + b"\0")
                feed_values(found.update, values)
    return found.hexdigest()


def extend(chain: str, batch: str) -> str:
    """The chain with one more batch of this digest."""
    return hashlib.sha256(f"{chain}{batch}".encode()).hexdigest()


def find_break(batches: Iterable[tuple[int, str, str]], chain: str = BEGINNING, after: int = 0) -> int | None:
    """The first batch that does not fit; None if all do. `batches`, in order: number, chain as noted, and digest.

    `chain`, `after`: the chain before the first of them, and the number of the batch before.
    """
    expected = after + 1
    for number, noted, digest in batches:
        chain = extend(chain, digest)
        if number != expected or noted != chain:
            return min(number, expected)
        expected += 1
    return None
