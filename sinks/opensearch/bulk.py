"""The bodies of bulk requests, built column by column: puts and deletes of documents by their keys."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import documents, key_documents, portions
from cdc.core.table import Table

ID_BYTES: Final = 512
"""OpenSearch's limit for ids. A longer key's id is a hash; other ids are JSON and begin with a brace."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Bulk actions in columns: their ids, and their lines of the request."""

    ids: pa.Array
    lines: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def body(self) -> bytes:
        """The body of one request."""
        # joined by Arrow: with a Python object for each line, this took a sixth of the time to fill an index
        whole = pa.ListArray.from_arrays(pa.array([0, len(self)], pa.int32()), self.lines)
        return bytes(pc.binary_join(whole, b"")[0].as_py())

    def take(self, at: Sequence[int]) -> "Operations":
        places = pa.array(at, pa.int64())
        return Operations(self.ids.take(places), self.lines.take(places))

    def slice(self, start: int, length: int | None = None) -> "Operations":
        return Operations(self.ids.slice(start, length), self.lines.slice(start, length))


def operations(changes: FeedRows, table: Table, version: int) -> Iterator[Operations]:
    """Make the actions for changes of a table, in parts."""
    # in any order: the changes have each key once
    yield from put_rows(changes.rows, table, version)
    for keys in portions(changes.gone):
        yield deletes(identities(key_documents(keys, table)), version)


def put_rows(rows: pa.Table, table: Table, version: int) -> Iterator[Operations]:
    """Make the actions that put rows, in parts."""
    for portion in portions(rows):
        yield puts(identities(key_documents(portion, table)), documents(portion, table), version)


def puts(ids: pa.Array, texts: pa.Array, version: int) -> Operations:
    """Make the actions that put documents, each a text of one line."""
    return Operations(ids, _lines('{"index":{"_id":"', ids, f'",{_meta(version)}', texts, "\n"))


def deletes(ids: pa.Array, version: int) -> Operations:
    return Operations(ids, _lines('{"delete":{"_id":"', ids, f'",{_meta(version)}'))


def _meta(version: int) -> str:
    # gte: a repeated batch meets its own version. Rows are put whole, since a bulk `update` has no external version
    return f'"version":{version},"version_type":"external_gte"}}}}\n'


def _lines(before: str, ids: pa.Array, *behind: pa.Array | str) -> pa.Array:
    """Make lines with escaped ids: an id is JSON or a hash, so only quotes and backslashes need escaping."""
    escaped = pc.replace_substring(pc.replace_substring(ids, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise(before, escaped, *behind, "").cast(pa.binary())


def identities(keys: pa.Array) -> pa.Array:
    """The ids of rows with these key documents."""
    long = pc.greater(pc.binary_length(keys), ID_BYTES)
    if not pc.any(long).as_py():
        return keys
    # the whole key stays in the document
    hashed = [hashlib.sha256(key.encode()).hexdigest() for key in keys.filter(long).to_pylist()]
    return pc.replace_with_mask(keys, long, pa.array(hashed, pa.string()))


def chunks(operations: Operations, most: int, most_bytes: int) -> Iterator[Operations]:
    """Cut into runs of at most `most` operations and `most_bytes`; a larger operation is a run of its own."""
    sizes = np.cumsum(np.asarray(pc.binary_length(operations.lines), np.int64)) if len(operations) else np.empty(0)
    start = 0
    while start < len(operations):
        before = sizes[start - 1] if start else 0
        # at least one, whatever its size: only the node knows its limit
        stop = max(int(np.searchsorted(sizes, before + most_bytes, "right")), start + 1)
        stop = min(stop, start + most)
        yield operations.slice(start, stop - start)
        start = stop
