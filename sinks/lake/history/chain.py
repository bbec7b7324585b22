"""The chain of a history: every batch of rows names the digest of all rows before it.

A row of the past that somebody changes, takes away or adds later no longer fits (*Designing Data-Intensive
Applications*, "Trust, but Verify": tools for auditable data systems). Whoever keeps a chain's end elsewhere also
notices a history that was written anew from some row on.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.rows.documents import value_texts
from cdc.core.table import Table
from sinks.lake.history.shape import BATCH, CHAIN

BEGINNING: Final = ""
"""What the first batch names."""


def hash_rows(rows: pa.Table, table: Table) -> list[str]:
    """The digest of each row of a history (SHA-256, hex), without its place in the chain.

    Of its values that are not null: a column that comes later changes no digest.
    """
    return [hashlib.sha256(text.encode()).hexdigest() for text in _texts(rows, table).to_pylist()]


def digest_batch(digests: Iterable[str]) -> str:
    """The digest of a batch, by those of its rows, in any order."""
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def extend(chain: str, batch: str) -> str:
    """The chain with one more batch of this digest."""
    return hashlib.sha256(f"{chain}{batch}".encode()).hexdigest()


def find_break(batches: Iterable[tuple[int, str, str]]) -> int | None:
    """The first batch that does not fit; None if all do. `batches`, in order: number, chain as noted, and digest."""
    chain, expected = BEGINNING, 1
    for number, noted, digest in batches:
        chain = extend(chain, digest)
        if number != expected or noted != chain:
            return min(number, expected)
        expected += 1
    return None


def _texts(rows: pa.Table, table: Table) -> pa.Array:
    return pc.binary_join_element_wise(*_named_texts(rows, table), "")


def _named_texts(rows: pa.Table, table: Table) -> Iterator[pa.Array]:
    for column in table.columns:
        if column.name not in (BATCH, CHAIN):
            values = rows[column.name].combine_chunks()
            named = pc.binary_join_element_wise(f"{json.dumps(column.name)}:", value_texts(values, column), ",", "")
            yield pc.if_else(pc.is_valid(values), named, "")
