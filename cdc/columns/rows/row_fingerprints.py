"""The identity of rows as 128 bits: of their keys, or of all columns in a table without a key."""

import pyarrow as pa

from cdc.columns.rows.digest import hash_document
from cdc.columns.rows.documents import documents, portions
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys, key_bits
from cdc.core.table import Table


def row_bits(rows: pa.Table, table: Table) -> KeyBits:
    """Compute the bits of rows, which have at least the `identifying_columns`."""
    if not rows.num_rows:
        return empty_keys()
    if table.key:
        return key_bits(table.key_columns, [rows[name] for name in table.key])
    return concat_keys([_hash_rows(part, table) for part in portions(rows)])


def identifying_columns(table: Table) -> tuple[str, ...]:
    """The columns that identify a row."""
    return table.key or table.column_names


def _hash_rows(rows: pa.Table, table: Table) -> KeyBits:
    # hashes of documents: equal rows have equal documents, also with nulls and with columns of variable width
    return KeyBits.from_digests(map(hash_document, documents(rows, table).cast(pa.binary()).to_pylist()))
