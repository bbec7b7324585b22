"""Rows of a view as their keys and hashes: equal rows have equal hashes, and are not written again."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cdc.columns.rows.digest import hash_document
from cdc.columns.rows.documents import portions
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Table
from cdc.sinks.lake.table.row_files import Derivation
from cdc.views.refresh.row_bytes import encode_rows
from cdc.views.refresh.write_rows import ViewChanges, find_key_problem

HASH: Final = "#row hash"
"""A column that no table has. Another hash needs another name: hashes are kept, by the names of columns."""


def hashed_schema(table: Table) -> pa.Schema:
    """The key's columns, and HASH (binary, 16 bytes)."""
    schema = arrow_schema(table)
    return pa.schema([*(schema.field(name) for name in table.key), pa.field(HASH, pa.binary())])


def hash_rows(rows: pa.Table, table: Table) -> pa.Table:
    """Rows of the view as `hashed_schema`; rows without a column have a null there."""
    rows = conform(rows, arrow_schema(table))
    hashes = [hash_document(row) for part in portions(rows) for row in encode_rows(part)]
    return rows.select(list(table.key)).append_column(HASH, pa.array(hashes, pa.binary()))


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Derives the hashes of a view's rows; may run in another thread."""

    table: Table

    def __call__(self, rows: pa.Table) -> pa.Table:
        return hash_rows(rows, self.table)

    def derivation(self) -> Derivation:
        return Derivation(self.table.column_names, self)


def compare(table: Table, old: pa.Table, new: pa.Table) -> ViewChanges:
    """What makes the view's `old` rows (as `hashed_schema`) into `new` ones.

    Raises ViewStoppedError when the key is not one.
    """
    if problem := find_key_problem(new, table.key):
        raise ViewStoppedError(table.name, problem)
    keys = old.select(list(table.key))
    before = dict(zip(row_bits(keys, table).pairs(), old[HASH].to_pylist(), strict=True))
    now = row_bits(new, table).pairs()
    hashed = hash_rows(new, table)
    differing = [before.get(key) != own for key, own in zip(now, hashed[HASH].to_pylist(), strict=True)]
    differs = np.array(differing, np.bool_)
    is_there = set(now)
    gone = [key not in is_there for key in before]
    return ViewChanges(
        new.filter(differs), hashed.filter(differs).combine_chunks(), keys.filter(np.array(gone, np.bool_)), keys
    )
